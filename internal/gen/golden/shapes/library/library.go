// Package library has types that payloads of another package are made of.
package library

// Meta is embedded by value.
type Meta struct {
	Source string `json:"source"`
	Level  int
}

// Trace is embedded by pointer.
type Trace struct {
	Span string `json:"span"`
}

// Pair is generic.
type Pair[K comparable, V any] struct {
	Key   K `json:"key"`
	Value V `json:"value"`
}

// Names is another name of an instantiated type.
type Names = Pair[string, []string]
