// Package obs is what operators see of a process: log lines, metrics, health,
// profiles and the version.
package obs
