//go:build race

package convert_test

// raceFactor is how much more memory a process may take whose every word has
// shadow memory.
const raceFactor = 4
