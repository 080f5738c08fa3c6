// Package opt has a generic type that encodes itself.
package opt

import "encoding/json"

// Of is a value or none, which is null.
type Of[T any] struct {
	value T
	ok    bool
}

// Some returns a value.
func Some[T any](v T) Of[T] { return Of[T]{v, true} }

// Get returns the value, if there is one.
func (o Of[T]) Get() (T, bool) { return o.value, o.ok }

// MarshalJSON implements [json.Marshaler].
func (o Of[T]) MarshalJSON() ([]byte, error) {
	if !o.ok {
		return []byte("null"), nil
	}
	return json.Marshal(o.value)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (o *Of[T]) UnmarshalJSON(raw []byte) error {
	if o.ok = string(raw) != "null"; !o.ok {
		return nil
	}
	return json.Unmarshal(raw, &o.value)
}
