// Package shapes declares tasks whose payloads take every shape that taskgen
// accepts, and whose organizations are of every type that it knows.
package shapes

import (
	"encoding/json"
	"errors"
	"math/big"
	"net/netip"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/pawlgo/pawl/internal/gen/golden/shapes/library"
	"github.com/pawlgo/pawl/task"
)

//go:generate go run github.com/pawlgo/pawl/cmd/taskgen

// Everything has a payload of many shapes.
//
//task:queue shapes
//task:idempotency fields=Source,Tree,ByNumber keep=1m30s
//task:order fields=Promoted,Tree,Source
//task:organization Source
type Everything struct{ task.Task[Everyone] }

// Everyone is the payload of [Everything].
type Everyone struct {
	library.Meta
	*library.Trace
	inner
	Names    library.Names                       `json:"names"`
	Pair     library.Pair[Level, *time.Duration] `json:"pair"`
	Tree     *Tree                               `json:"tree"`
	ByNumber map[int]map[string][]Tree           `json:"by_number"`
	ByID     map[uuid.UUID]bool                  `json:"by_id"`
	Bytes    []byte                              `json:"bytes"`
	Array    [3]int16                            `json:"array"`
	Number   int64                               `json:"number,string"`
	Unsigned uint64                              `json:"unsigned"`
	Share    *float64                            `json:"share,omitempty"`
	At       time.Time                           `json:"at"`
	Big      *big.Int                            `json:"big"`
	Addr     netip.Addr                          `json:"addr"`
	Raw      json.RawMessage                     `json:"raw"`
	Digits   json.Number                         `json:"digits"`
	Inline   struct {
		Yes bool `json:"yes"`
	} `json:"inline"`
	Stamp   Stamp    `json:"stamp"`
	Noted   Noted    `json:"noted"`
	Skipped chan int `json:"-"`
	secret  string   `json:"-"`
	_       int
}

// Stamp encodes as the time that is all it has.
type Stamp struct{ time.Time }

// Noted has the methods of an embedded time, and its own before them.
type Noted struct {
	time.Time
	Note string
}

// MarshalJSON implements [json.Marshaler].
func (n Noted) MarshalJSON() ([]byte, error) {
	return json.Marshal([]string{n.Format(time.RFC3339Nano), n.Note})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (n *Noted) UnmarshalJSON(raw []byte) error {
	var parts [2]string
	err := json.Unmarshal(raw, &parts)
	if err == nil {
		n.Note = parts[1]
		n.Time, err = time.Parse(time.RFC3339Nano, parts[0])
	}
	return err
}

type inner struct {
	Promoted string `json:"promoted"`
}

// Level is a named scalar.
type Level string

// Tree is recursive.
type Tree struct {
	Name     string  `json:"name"`
	Children []*Tree `json:"children"`
}

// ByName has an organization that is a named string.
//
//task:queue tenants
//task:organization Tenant
type ByName struct{ task.Task[Of[Level]] }

// ByInt has an organization that is an integer.
//
//task:queue tenants
//task:organization Tenant
type ByInt struct{ task.Task[Of[int32]] }

// ByUint has an organization that is an unsigned integer.
//
//task:queue tenants
//task:organization Tenant
type ByUint struct{ task.Task[Of[uint64]] }

// ByUUID has an organization that is a UUID.
//
//task:queue tenants
//task:organization Tenant
type ByUUID struct{ task.Task[Of[uuid.UUID]] }

// ByStringer has an organization with a String method.
//
//task:queue tenants
//task:organization Tenant
type ByStringer struct{ task.Task[Of[Numbered]] }

// ByText has an organization with a MarshalText method, which may fail.
//
//task:queue tenants
//task:organization Tenant
type ByText struct{ task.Task[Of[Fussy]] }

// Of is a payload with a tenant.
type Of[T any] struct {
	Tenant T `json:"tenant"`
}

// Numbered is a number with a String method.
type Numbered int

func (n Numbered) String() string { return "tenant-" + strconv.Itoa(int(n)) }

// Fussy refuses some values.
type Fussy struct{ Name string }

// ErrFussy is the error of a value that is refused.
var ErrFussy = errors.New("fussy")

// MarshalText implements [encoding.TextMarshaler].
func (f *Fussy) MarshalText() ([]byte, error) {
	if f.Name == "bad" {
		return nil, ErrFussy
	}
	return []byte(f.Name), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (f *Fussy) UnmarshalText(text []byte) error {
	f.Name = string(text)
	return nil
}
