//go:build !full

package campaign

// declarations is how many are made; the build tag full makes ten times as many.
const declarations = 200
