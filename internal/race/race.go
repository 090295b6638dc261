// Package race tells tests whether the race detector watches, which makes them some ten times slower.
package race

// Scaled is whole, or less with the race detector: what a test repeats, where fewer rounds find the same races.
func Scaled(whole, less int) int {
	if Enabled {
		return less
	}
	return whole
}
