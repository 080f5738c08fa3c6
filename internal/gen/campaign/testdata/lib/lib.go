// Package lib has types for payloads of other packages.
package lib

import (
	"encoding/json"
	"errors"
	"time"
)

// Args is a payload by itself.
type Args struct {
	ID    int64     `json:"id"`
	Names []string  `json:"names"`
	At    time.Time `json:"at"`
}

// Base and Trace are for embedding.
type Base struct {
	BaseID   int    `json:"base_id"`
	BaseName string `json:",omitempty"`
}

// Trace has an embedded struct that is not exported.
type Trace struct {
	TraceID string
	span
}

type span struct {
	SpanID uint32 `json:"span_id"`
}

// Pair is generic.
type Pair[K comparable, V any] struct {
	Key   K
	Value V `json:"pair_value"`
}

// Names is an alias, and Twice a generic one.
type (
	Names           = Pair[string, []string]
	Twice[T any]    = Pair[string, Pair[string, T]]
	Level           uint8
	Title           string
	Matrix          [2][2]float64
	Optional[T any] struct{ Some *T }
)

// Hidden has a field that is not stored, and Partial one that says so.
type (
	Hidden  struct{ secret int }
	Partial struct {
		Open   int
		secret int `json:"-"`
	}
)

// Money encodes itself through values, Temperature through pointers.
type Money struct{ Cents int64 }

func (m Money) MarshalJSON() ([]byte, error) { return json.Marshal([]int64{m.Cents}) }
func (m *Money) UnmarshalJSON(raw []byte) error {
	var list []int64
	if err := json.Unmarshal(raw, &list); err != nil || len(list) != 1 {
		return errors.Join(err, errors.New("no money"))
	}
	m.Cents = list[0]
	return nil
}

type Temperature struct{ Kelvin int }

func (t *Temperature) MarshalJSON() ([]byte, error) { return json.Marshal(-t.Kelvin) }
func (t *Temperature) UnmarshalJSON(raw []byte) error {
	err := json.Unmarshal(raw, &t.Kelvin)
	t.Kelvin = -t.Kelvin
	return err
}

// Tag is text, and so may be a key.
type Tag struct{ Text string }

func (t Tag) MarshalText() ([]byte, error)     { return []byte("tag:" + t.Text), nil }
func (t *Tag) UnmarshalText(text []byte) error { t.Text = string(text[len("tag:"):]); return nil }

// Grade is checked when it is decoded.
type Grade string

func (g *Grade) UnmarshalText(text []byte) error { *g = Grade(text); return nil }

// Code is text both ways, which encoding/json honors in values alone.
type Code string

func (c Code) MarshalText() ([]byte, error)     { return []byte("code:" + c), nil }
func (c *Code) UnmarshalText(text []byte) error { *c = Code(text[len("code:"):]); return nil }

// OneWay is never decoded.
type OneWay struct{ N int }

func (OneWay) MarshalJSON() ([]byte, error) { return []byte("1"), nil }

// Digits decodes itself from text, but is written as a number.
type Digits int

func (d *Digits) UnmarshalText(text []byte) error { return errors.New("no digits") }
