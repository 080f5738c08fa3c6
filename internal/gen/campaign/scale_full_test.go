//go:build full

package campaign

const declarations = 2_000
