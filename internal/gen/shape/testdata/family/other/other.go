// Package other has types that are foreign to package family, some under the
// same names.
package other

import "encoding/json"

// Item is not family's.
type Item struct {
	Weight float64 `json:"weight"`
}

// Base is embedded across the packages.
type Base struct {
	ID   int64 `json:"id"`
	Note string
}

// Box is instantiated from the other package.
type Box[T any] struct {
	Content T `json:"content"`
}

// Code encodes itself.
type Code struct{ n int }

// MarshalJSON implements [json.Marshaler].
func (c Code) MarshalJSON() ([]byte, error) { return json.Marshal(c.n) }

// UnmarshalJSON implements [json.Unmarshaler].
func (c *Code) UnmarshalJSON(raw []byte) error { return json.Unmarshal(raw, &c.n) }
