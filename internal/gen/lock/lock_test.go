package lock

import (
	"strings"
	"testing"

	"github.com/pawlgo/pawl/internal/gen/rules"
	"github.com/pawlgo/pawl/internal/gen/shape"
	"github.com/stretchr/testify/require"
)

func args(fields ...shape.Field) *shape.Shape {
	return &shape.Shape{
		Root:    shape.Node{Kind: shape.Struct, Ref: "Args"},
		Structs: map[string]shape.Object{"Args": {Fields: fields}},
	}
}

func field(json, inGo string, kind shape.Kind) shape.Field {
	return shape.Field{JSON: json, Go: inGo, Type: shape.Node{Kind: kind}}
}

func example() *Lock {
	first := args(field("a", "A", shape.Int))
	second := args(field("c", "C", shape.String), field("b", "B", shape.Int))
	return &Lock{Kinds: map[string]*Kind{
		"send": {
			Task: "Send",
			Versions: map[int]*Version{
				2: {Base: NewBase("send", 2, first), Upgrader: true, Shape: first},
				3: {Base: NewBase("send", 3, second), Shape: second},
			},
			Retired:  map[int]Retirement{1: ByCommand},
			Reserved: map[string]rules.Reserved{"a": {Field: field("a", "A", shape.Int)}},
			Identity: &Identity{
				Fields:       []IdentityField{{"b", []byte(`{"root":{"kind":"int"},"structs":[]}`)}},
				Organization: &IdentityField{"c", []byte(`{"root":{"kind":"string"},"structs":[]}`)},
			},
			Order:    &Identity{Fields: []IdentityField{{"c", []byte(`{}`)}, {"b", []byte(`{}`)}}},
			Accepted: []Acceptance{{"marshaler-added", "c", "it writes <the same> text"}},
		},
		"mail": {AliasOf: "send", Versions: map[int]*Version{2: {Base: NewBase("mail", 2, first)}}},
		"gone": {Retired: map[int]Retirement{1: Removed}},
	}}
}

const written = `{
  "format": 1,
  "codec": "encoding/json",
  "kinds": {
    "gone": {
      "retired": {
        "1": "with its task"
      }
    },
    "mail": {
      "alias_of": "send",
      "versions": {
        "2": {
          "base": "MAIL"
        }
      }
    },
    "send": {
      "task": "Send",
      "idempotency": [
        {"field":"b","wire":{"root":{"kind":"int"},"structs":[]}}
      ],
      "organization": {"field":"c","wire":{"root":{"kind":"string"},"structs":[]}},
      "order": [
        {"field":"c","wire":{}},
        {"field":"b","wire":{}}
      ],
      "accepted": [
        {"rule":"marshaler-added","path":"c","reason":"it writes <the same> text"}
      ],
      "reserved": {
        "a": {"field":{"json":"a","go":"A","type":{"kind":"int"}}}
      },
      "retired": {
        "1": "by command"
      },
      "versions": {
        "2": {
          "base": "SEND2",
          "upgrader": true,
          "root": {"kind":"struct","ref":"Args"},
          "structs": {
            "Args": [
              {"json":"a","go":"A","type":{"kind":"int"}}
            ]
          }
        },
        "3": {
          "base": "SEND3",
          "root": {"kind":"struct","ref":"Args"},
          "structs": {
            "Args": [
              {"json":"b","go":"B","type":{"kind":"int"}},
              {"json":"c","go":"C","type":{"kind":"string"}}
            ]
          }
        }
      }
    }
  }
}
`

func TestSpell(t *testing.T) {
	t.Parallel()
	s := args(field("c", "C<D>", shape.String), field("b", "B", shape.Int))
	require.Equal(t, `{"root":{"kind":"struct","ref":"Args"},"structs":{"Args":[`+
		`{"json":"b","go":"B","type":{"kind":"int"}},{"json":"c","go":"C<D>","type":{"kind":"string"}}]}}`, Spell(s))
	require.Equal(t, `{"root":{"kind":"string"}}`, Spell(&shape.Shape{Root: shape.Node{Kind: shape.String}}))
}

func TestWriteAndRead(t *testing.T) {
	t.Parallel()
	l := example()
	text := func(b Base) string {
		t.Helper()
		raw, err := b.MarshalText()
		require.NoError(t, err)
		return string(raw)
	}
	want := strings.NewReplacer(
		"MAIL", text(l.Kinds["mail"].Versions[2].Base),
		"SEND2", text(l.Kinds["send"].Versions[2].Base),
		"SEND3", text(l.Kinds["send"].Versions[3].Base),
	).Replace(written)
	require.Equal(t, want, string(l.Bytes()))

	read, err := Parse(l.Bytes())
	require.NoError(t, err)
	require.Equal(t, want, string(read.Bytes()))
	require.Equal(t, map[string][]int{"send": {1}}, Tombstones(l.Bytes()))

	missing, err := Parse(nil)
	require.NoError(t, err)
	require.Nil(t, missing.Bytes())
	require.Nil(t, (&Lock{}).Bytes())
}

// Stored jobs carry bases: what they are made of never changes.
//
// printf '["send_webhook",1,{"root":{"kind":"int"},"structs":[]}]' | sha256sum
func TestBase(t *testing.T) {
	t.Parallel()
	b := NewBase("send_webhook", 1, &shape.Shape{Root: shape.Node{Kind: shape.Int}})
	text, err := b.MarshalText()
	require.NoError(t, err)
	require.Equal(t, "13e9e01525a8efdb666ea1088f8bbcdd9b68cc35c0ebd1b44c5a40ae0a298d44", string(text))
	require.Equal(t, uint64(0x13e9e01525a8efdb), b.Capability())
	require.NotEqual(t, b, NewBase("send_webhook", 2, &shape.Shape{Root: shape.Node{Kind: shape.Int}}))
	require.NotEqual(t, b, NewBase("send_webhook", 1, &shape.Shape{Root: shape.Node{Kind: shape.Uint}}))
}

func TestRefused(t *testing.T) {
	t.Parallel()
	whole := string(example().Bytes())
	replaced := func(old, new string) string {
		require.Equal(t, 1, strings.Count(whole, old), old)
		return strings.Replace(whole, old, new, 1)
	}
	for _, c := range []struct{ name, src, want string }{
		{"empty", "", "it is empty"},
		{"blank", " \n", "it is empty"},
		{"no JSON", "{\n\"format\": 1,\n]", "line 3: invalid character"},
		{"cut", whole[:len(whole)/2], "unexpected end of JSON input"},
		{"more", whole + "{}", "after top-level value"},
		{"newer", `{"format":2,"magic":true}`, "it has the format 2, and this taskgen knows 1: it was written by a newer one"},
		{"foreign", `{"name":"x"}`, "it names no format"},
		{"unknown field", `{"format":1,"codec":"encoding/json","magic":true}`, `unknown field "magic"`},
		{"codec", `{"format":1,"codec":"encoding/json/v2"}`, `encoded with "encoding/json/v2"`},
		{"duplicate", `{"format":1,"codec":"encoding/json","kinds":{` + "\n" + `"a":{},"a":{}}}`, `line 2: "a" is there twice`},
		{"base", replaced(`"upgrader": true`, `"base": "00", "upgrader": true`), `"base" is there twice`},
		{"wrong base", `{"format":1,"codec":"encoding/json","kinds":{"a":{"task":"A","versions":{"1":{"base":"00","root":{"kind":"int"}}}}}}`, "64 hexadecimal digits"},
		{"retired and live", replaced(`"1": "by command"`, `"3": "by command"`), "kind send, version 3: it is live and retired at once"},
		{"no shape", `{"format":1,"codec":"encoding/json","kinds":{"a":{"task":"A","versions":{"1":{}}}}}`, "kind a, version 1: an alias has no shapes"},
		{"wrong shape", replaced(`"c","go":"C","type":{"kind":"string"}`, `"c","go":"C","type":{"kind":"text"}`), `the kind "text" is unknown`},
		{"alias of nothing", replaced(`"alias_of": "send"`, `"alias_of": "gone"`), "kind mail: version 2 has no shape in gone"},
		{"no task", replaced(`      "task": "Send",`+"\n", ""), "kind send: it has live versions and no task"},
		{"null", `{"format":1,"codec":"encoding/json","kinds":{"a":null}}`, "kind a is null"},
		{"conflict", "{\n<<<<<<< HEAD\n", "line 2: it has conflict markers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse([]byte(c.src))
			var typed *Error
			require.ErrorAs(t, err, &typed)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestSides(t *testing.T) {
	t.Parallel()
	src := []byte("a\n<<<<<<< HEAD\nb\n||||||| base\nc\n=======\nd\n>>>>>>> branch\ne\n")
	ours, theirs := Sides(src)
	require.Equal(t, "a\nb\ne\n", string(ours))
	require.Equal(t, "a\nd\ne\n", string(theirs))
	require.True(t, Conflicted(src))
	require.False(t, Conflicted(ours))
}

// A tombstone that only one side has is not lost in a merge.
func TestTombstonesInConflict(t *testing.T) {
	t.Parallel()
	whole := string(example().Bytes())
	require.Contains(t, whole, `        "1": "by command"`+"\n")
	src := strings.Replace(whole, `        "1": "by command"`+"\n", "<<<<<<< HEAD\n"+`        "1": "by command"`+"\n=======\n"+`        "0": "with its task"`+"\n>>>>>>> branch\n", 1)
	require.Equal(t, map[string][]int{"send": {1}}, Tombstones([]byte(src)))
	require.Empty(t, Tombstones([]byte("no lock at all")))
}

func TestAdopt(t *testing.T) {
	t.Parallel()
	l := &Lock{Kinds: map[string]*Kind{"send": {Retired: map[int]Retirement{1: ByCommand, 2: Removed, 9: Removed}}}}
	other := example()
	l.Adopt(other, "mail") // an alias brings the kind along
	require.Equal(t, map[int]Retirement{1: ByCommand, 9: Removed}, l.Kinds["send"].Retired)
	require.Len(t, l.Kinds["send"].Versions, 2)
	require.Equal(t, other.Kinds["mail"].Versions, l.Kinds["mail"].Versions)
	require.Equal(t, example().Bytes(), other.Bytes())
	_, err := Parse(l.Bytes())
	require.NoError(t, err)
}
