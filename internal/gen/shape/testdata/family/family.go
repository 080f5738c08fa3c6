// Package family has one type for each thing that a shape has to get right. The
// tests see them through go/types and through reflect.
package family

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/pawlgo/pawl/internal/gen/shape/testdata/family/other"
)

// Types that encode themselves, each in another way.
type (
	Value         struct{ n int }
	Address       struct{ n int }
	Text          string
	Lenient       int // only decodes itself
	Octet         uint8
	Tagged[T any] struct{ n T }
)

func (v Value) MarshalJSON() ([]byte, error)       { return json.Marshal(v.n) }
func (v *Value) UnmarshalJSON(raw []byte) error    { return json.Unmarshal(raw, &v.n) }
func (a *Address) MarshalText() ([]byte, error)    { return strconv.AppendInt(nil, int64(a.n), 10), nil }
func (a *Address) UnmarshalText(text []byte) error { return json.Unmarshal(text, &a.n) }
func (t Text) MarshalText() ([]byte, error)        { return []byte(t), nil }
func (t *Text) UnmarshalText(text []byte) error    { *t = Text(text); return nil }
func (l *Lenient) UnmarshalJSON(raw []byte) error  { return json.Unmarshal(raw, (*int)(l)) }
func (o Octet) MarshalJSON() ([]byte, error)       { return json.Marshal(uint8(o)) }
func (o *Octet) UnmarshalJSON(raw []byte) error    { return json.Unmarshal(raw, (*uint8)(o)) }
func (t Tagged[T]) MarshalJSON() ([]byte, error)   { return json.Marshal(t.n) }
func (t *Tagged[T]) UnmarshalJSON(raw []byte) error {
	return json.Unmarshal(raw, &t.n)
}

// Key is a map key that is an integer in Go and text on the wire.
type Key int

func (k Key) MarshalText() ([]byte, error) { return strconv.AppendInt([]byte("k"), int64(k), 10), nil }
func (k *Key) UnmarshalText(text []byte) error {
	n, err := strconv.Atoi(string(text[1:]))
	*k = Key(n)
	return err
}

// Named types without methods.
type (
	Level string
	Count int32
	Byte  byte
	List  []Item
	Alias = Item
	Mark  = map[Level]Item
)

type Scalars struct {
	Bool    bool
	Int     int
	Int8    int8
	Int16   int16
	Int32   int32
	Int64   int64
	Uint    uint
	Uint8   uint8
	Uint16  uint16
	Uint32  uint32
	Uint64  uint64
	Uintptr uintptr
	Float32 float32
	Float64 float64
	String  string
	Rune    rune
	Level   Level
	Count   Count
	Wait    time.Duration
	Month   time.Month
}

type Containers struct {
	Bytes     []byte
	Named     []Byte
	Digest    [4]byte
	Octets    []Octet
	List      List
	Pointers  []*Item
	Deep      [][][2]map[string][]Item
	Twice     **Item
	None      [0]int
	Words     map[string]string
	Levels    map[Level]bool
	Numbers   map[int16]Item
	Unsigned  map[uint64]*Item
	Texts     map[Text]int
	Keys      map[Key]int
	IDs       map[uuid.UUID]time.Time
	Aliased   Alias
	AliasList []Alias
	Mark      Mark
}

type Item struct {
	N int `json:"n"`
}

type Encoded struct {
	Raw      json.RawMessage
	RawP     *json.RawMessage
	Number   json.Number
	At       time.Time
	AtP      *time.Time `json:"at_p,omitzero"`
	ID       uuid.UUID
	Value    Value
	Address  Address
	Text     Text
	Texts    []Text
	Lenient  Lenient
	Code     other.Code
	Tagged   Tagged[int]
	TaggedIn Tagged[other.Item]
}

type Options struct {
	Quoted    int      `json:"quoted,string"`
	QuotedP   *float64 `json:",string,omitempty"`
	QuotedPP  **int    `json:"pp,string"`
	NotQuoted []int    `json:",string"`
	Empty     []int    `json:"empty,omitempty"`
	Zero      Item     `json:"zero,omitzero"`
	Left      int      `json:"-"`
	Dash      int      `json:"-,"`
	Invalid   int      `json:"no\"name"`
	Strange   int      `json:"a.b c/d[e]{f}%"`
	hidden    int
	Unicode   int `json:"größe"`
}

type (
	base struct {
		ID     int64 `json:"id"`
		Name   string
		secret int
	}
	Base struct {
		ID   string `json:"id"`
		Also bool
	}
	deeper struct{ Base }
	Words  []string
	hidden int

	Embedded struct{ base }
	Shadowed struct {
		Base
		ID uint8 `json:"id"`
	}
	Ambiguous struct {
		base
		Base
		Own int
	}
	TagWins struct {
		Left
		Right
	}
	Left  struct{ Same int }
	Right struct {
		Other int `json:"Same"`
	}
	ByPointer struct{ *Base }
	Given     struct {
		Base `json:"base"`
	}
	GivenHidden struct {
		base `json:"base"`
	}
	BothNames struct {
		base `json:"base"`
		Base int
	}
	NoStruct struct {
		Words
		hidden
		Level `json:"level"`
	}
	Depth struct {
		deeper
		Also int
	}
	// Base is two levels down on two ways, and so hides itself.
	Diamond struct {
		LeftWay
		RightWay
	}
	LeftWay  struct{ Base }
	RightWay struct{ Base }
	// A struct that embeds itself is entered once.
	Loop struct {
		*Loop
		N int
	}
	Foreign struct {
		other.Base
		*Generic[other.Item]
	}
	Generic[T any] struct{ Of T }
	SameGoName     struct {
		First
		Second
		Third int `json:"third"`
	}
	First struct {
		ID int `json:"first_id"`
	}
	Second struct {
		ID    int `json:"second_id"`
		Third int `json:"deep_third"`
	}
	EmbedsAlias struct{ AliasOfBase }
	AliasOfBase = Base
)

type Anonymous struct {
	Meta struct {
		A    int `json:"a"`
		Deep []struct{ B int }
	} `json:"meta"`
	Same []struct {
		A int `json:"a"`
	}
	Box other.Box[struct {
		C int `json:"c"`
	}]
	None struct{}
}

type Node struct {
	Next  *Node
	Peers []*Peer
}

type Peer struct {
	Home map[string]Node
	Self []Peer
}

type Batch[T any] struct {
	Items []T `json:"items"`
}

type Pair[A, B any] struct {
	A A
	B B
}

type Generics struct {
	Local   Batch[Item]
	Alias   Batch[Alias]
	Other   Batch[other.Item]
	Pointer Batch[*Item]
	Slice   Batch[[]Item]
	Array   Batch[[3]other.Item]
	Map     Batch[map[string]Item]
	Scalar  Batch[int]
	Nested  Batch[Batch[Item]]
	Pair    Pair[Item, other.Item]
	Box     other.Box[Item]
	BoxBox  other.Box[other.Box[Level]]
	Inner   Batch[struct {
		A int `json:"a"`
		Item
	}]
}

type InstantiatedRoot = Batch[Pair[Item, *other.Item]]

// Payloads that have no shape.
type (
	Tree         []Tree
	Link         *Link
	Mutual       map[string]Mutual2
	Mutual2      []Mutual
	WithTree     struct{ Forest map[string]Tree }
	WithLink     struct{ Link Link }
	WithMutual   struct{ Mutual Mutual }
	WithAny      struct{ Any []any }
	WithChan     struct{ Inner struct{ C chan int } }
	WithKey      struct{ M map[bool]int }
	WithUnnamed  struct{ T struct{ Value } }
	WithComplex  struct{ C complex128 }
	WithFunc     struct{ F func() }
	WithIterated struct{ B Batch[any] }
)
