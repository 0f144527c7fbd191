//go:build !race

package convert_test

const raceFactor = 1
