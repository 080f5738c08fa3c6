// Package past has the payload types of earlier revisions of package evolved,
// which recorded shapes are made from.
package past

import (
	"encoding/json"
	"math/big"
	"time"

	"github.com/google/uuid"
	"github.com/pawlgo/pawl/internal/gen/golden/shapes/library"
	"github.com/pawlgo/pawl/internal/gen/render/golden/evolved/opt"
)

// The revisions of the payload of evolved.Deliver.
type (
	DeliverV1 struct {
		Name  string `json:"name"`
		Retry *Retry `json:"retry,omitempty"`
	}
	DeliverV2 struct {
		First string `json:"first"`
		Last  string `json:"last"`
		Spare string `json:"spare"`
	}
	DeliverV3 struct { // without Spare
		First string `json:"first"`
		Last  string `json:"last"`
	}
	DeliverV4 struct {
		Names []string `json:"names"`
		Count int32    `json:"count"`
	}
)

// The revisions of the payload of evolved.Shrink, each of which lost a field.
type (
	ShrinkV1 struct {
		A int `json:"a"`
		B int `json:"b"`
		C int `json:"c"`
	}
	ShrinkV2 struct {
		A int `json:"a"`
		B int `json:"b"`
	}
)

// The revisions of the payload of evolved.Retired that are left.
type RetiredV2 struct {
	Seconds int `json:"seconds"`
}

// The first revisions of payloads that are no structs.
type (
	ListV1 []Retry
	TextV1 string
)

// NewCodeV1 encodes itself.
type CodeV1 = Code

// Retry is nested.
type Retry struct {
	Max int `json:"max"`
}

// retry would have the same exported name.
type retry struct {
	Old bool `json:"old"`
}

// Node is recursive.
type Node struct {
	Name   string `json:"name"`
	Next   *Node  `json:"next,omitempty"`
	ByName map[string]Node
}

// Box is generic.
type Box[T any] struct {
	Items []T `json:"items"`
}

// Level is a named scalar.
type Level string

// Code encodes itself.
type Code [2]byte

// MarshalText implements [encoding.TextMarshaler].
func (c Code) MarshalText() ([]byte, error) { return c[:], nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (c *Code) UnmarshalText(text []byte) error { copy(c[:], text); return nil }

// base is embedded.
type base struct {
	Trace string `json:"trace"`
	Depth int
}

// ArchiveV1 has every shape.
type ArchiveV1 struct {
	base
	*library.Trace
	Level     Level                          `json:"level"`
	Retry     *Retry                         `json:"retry,omitempty"`
	Older     retry                          `json:"older"`
	Meta      library.Meta                   `json:"meta"`
	Pair      library.Pair[Level, *Retry]    `json:"pair"`
	Tree      *Node                          `json:"tree"`
	Boxes     Box[Box[Retry]]                `json:"boxes"`
	Text      Box[string]                    `json:"text"`
	Texts     Box[[]string]                  `json:"texts"`
	Foreign   Box[library.Meta]              `json:"foreign"`
	Inline    struct{ Deep struct{ A int } } `json:"inline"`
	Count     int64                          `json:"count,omitempty,string"`
	At        time.Time                      `json:"at,omitzero"`
	ID        uuid.UUID                      `json:"id"`
	Code      Code                           `json:"code"`
	Codes     map[Code]Retry                 `json:"codes"`
	ByID      map[uuid.UUID][]*time.Time     `json:"by_id"`
	ByNumber  map[int8]map[Level]bool        `json:"by_number"`
	Maybe     opt.Of[time.Time]              `json:"maybe"`
	Nested    *opt.Of[map[string][]Level]    `json:"nested"`
	Body      []byte                         `json:"body"`
	Raw       json.RawMessage                `json:"raw"`
	Digits    json.Number                    `json:"digits"`
	Big       *big.Int                       `json:"big"`
	Array     [2][3]float32                  `json:"array"`
	Duration  time.Duration                  `json:"duration"`
	Pointers  **uint16                       `json:"pointers"`
	Untagged  uint64
	Odd       string `json:"odd name-with.signs"`
	Left      string `json:"-"`
	Following int    `json:",omitempty"`
}
