package store_test

import (
	"encoding/json"
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/gen/shape"
	"github.com/pawlgo/pawl/internal/gen/shape/testdata/family"
	"github.com/pawlgo/pawl/internal/testdb"
)

// shapeOf is the wire shape of a type in the spelling of a lock.
func shapeOf(t *testing.T, typ reflect.Type) string {
	t.Helper()
	s, err := shape.FromReflect(typ)
	require.NoError(t, err)
	structs := map[string][]shape.Field{}
	for name, object := range s.Structs {
		structs[name] = object.Fields
	}
	raw, err := json.Marshal(map[string]any{"root": s.Root, "structs": structs})
	require.NoError(t, err)
	return string(raw)
}

// misfit is what the database says of arguments, empty where they fit.
func misfit(t *testing.T, pool *pgxpool.Pool, shape, args string) string {
	t.Helper()
	return query[string](t, pool, `SELECT COALESCE(pawl.misfit($1::jsonb, $2::jsonb), '')`, args, shape)
}

type (
	everyKind struct {
		Bool     bool     `json:",omitzero"`
		Int8     int8     `json:",omitzero"`
		Int16    int16    `json:",omitzero"`
		Int32    int32    `json:",omitzero"`
		Int64    int64    `json:",omitzero"`
		Int      int      `json:",omitzero"`
		Uint8    uint8    `json:",omitzero"`
		Uint16   uint16   `json:",omitzero"`
		Uint32   uint32   `json:",omitzero"`
		Uint64   uint64   `json:",omitzero"`
		Uint     uint     `json:",omitzero"`
		Uintptr  uintptr  `json:",omitzero"`
		Float32  float32  `json:",omitzero"`
		Float64  float64  `json:",omitzero"`
		String   string   `json:",omitzero"`
		Bytes    []byte   `json:",omitempty"`
		QInt     int      `json:",string,omitzero"`
		QUint8   uint8    `json:",string,omitzero"`
		QFloat32 float32  `json:",string,omitzero"`
		QFloat64 float64  `json:",string,omitzero"`
		QBool    bool     `json:",string,omitzero"`
		QString  string   `json:",string,omitzero"`
		QPointer *int     `json:",string"`
		Pointer  *int16   `json:"pointer"`
		Pointers **string `json:"pointers"`

		List   []int8                      `json:",omitempty"`
		Array  [2]int                      `json:",omitzero"`
		None   [0]int                      `json:",omitzero"`
		Hash   [3]byte                     `json:",omitzero"`
		Map    map[string]bool             `json:",omitempty"`
		Deep   map[string][]map[int8]inner `json:",omitempty"`
		Signed map[int8]int                `json:",omitempty"`
		Whole  map[uint64]string           `json:",omitempty"`
		IDs    map[uuid.UUID]int           `json:",omitempty"`
		Struct *node                       `json:",omitempty"`
		Wide   struct{}                    `json:",omitzero"`

		ID      uuid.UUID       `json:",omitzero"`
		Time    time.Time       `json:",omitzero"`
		Raw     json.RawMessage `json:",omitempty"`
		Number  json.Number     `json:",omitempty"`
		QNumber json.Number     `json:",string,omitempty"`
		Big     *big.Int        `json:",omitempty"`
		Strange string          `json:"a.b c,omitempty"`
	}
	inner struct {
		X float32 `json:"x"`
	}
	node struct {
		N    int     `json:"n"`
		Text *string `json:"text"`
		Next *node   `json:"next,omitempty"`
		Kids []node  `json:"kids"`
	}
)

// TestMisfit holds each construct of a shape against values on both sides of
// every edge that it has.
func TestMisfit(t *testing.T) {
	t.Parallel()
	_, pool := open(t)
	all := shapeOf(t, reflect.TypeFor[everyKind]())
	const whole = "expected a whole number without a decimal point, from "
	for _, c := range []struct{ args, want string }{
		{`{}`, ""},
		{`[]`, "args: expected an object, got an array"},
		{`null`, "args: expected an object, got null"},
		{`"x"`, "args: expected an object, got a string"},
		{`{"bool": true}`, "args.bool: there is no such member; there are Bool, Int8, Int16, Int32, Int64, Int, Uint8, Uint16, Uint32, Uint64, Uint, Uintptr, Float32, Float64, String, Bytes, QInt, QUint8, QFloat32, QFloat64"},

		{`{"Bool": false}`, ""},
		{`{"Bool": 0}`, "args.Bool: expected true or false, got a number"},
		{`{"Bool": "true"}`, "args.Bool: expected true or false, got a string"},
		{`{"Bool": null}`, "args.Bool: expected true or false, got null"},

		{`{"Int8": -128, "Int16": -32768, "Int32": -2147483648, "Int64": -9223372036854775808, "Int": -9223372036854775808}`, ""},
		{`{"Int8": 127, "Int16": 32767, "Int32": 2147483647, "Int64": 9223372036854775807, "Int": 9223372036854775807}`, ""},
		{`{"Uint8": 0, "Uint16": 0, "Uint32": 0, "Uint64": 0, "Uint": 0, "Uintptr": 0}`, ""},
		{`{"Uint8": 255, "Uint16": 65535, "Uint32": 4294967295, "Uint64": 18446744073709551615, "Uint": 18446744073709551615, "Uintptr": 18446744073709551615}`, ""},
		{`{"Int8": 128}`, "args.Int8: " + whole + "-128 to 127, got another number"},
		{`{"Int8": -129}`, "args.Int8: " + whole + "-128 to 127, got another number"},
		{`{"Int16": 32768}`, "args.Int16: " + whole + "-32768 to 32767, got another number"},
		{`{"Int32": 2147483648}`, "args.Int32: " + whole + "-2147483648 to 2147483647, got another number"},
		{`{"Int64": 9223372036854775808}`, "args.Int64: " + whole + "-9223372036854775808 to 9223372036854775807, got another number"},
		{`{"Int": 1e30}`, "args.Int: " + whole + "-9223372036854775808 to 9223372036854775807, got another number"},
		{`{"Int": 1e2}`, ""},
		{`{"Int": -0}`, ""},
		{`{"Int": 1.0}`, "args.Int: " + whole + "-9223372036854775808 to 9223372036854775807, got another number"},
		{`{"Int": "1"}`, "args.Int: " + whole + "-9223372036854775808 to 9223372036854775807, got a string"},
		{`{"Int": null}`, "args.Int: " + whole + "-9223372036854775808 to 9223372036854775807, got null"},
		{`{"Uint8": 256}`, "args.Uint8: " + whole + "0 to 255, got another number"},
		{`{"Uint64": -1}`, "args.Uint64: " + whole + "0 to 18446744073709551615, got another number"},
		{`{"Uint64": 18446744073709551616}`, "args.Uint64: " + whole + "0 to 18446744073709551615, got another number"},

		{`{"Float32": 3.4028235e38, "Float64": 1.7976931348623157e308}`, ""},
		{`{"Float32": 3.4028236e38}`, "args.Float32: expected a number that fits into a float32, got another number"},
		{`{"Float64": -1.797693134862315808e308}`, "args.Float64: expected a number that fits into a float64, got another number"},
		{`{"Float64": 5e-400}`, ""},
		{`{"Float64": "1"}`, "args.Float64: expected a number that fits into a float64, got a string"},
		{`{"String": 1}`, "args.String: expected a string, got a number"},
		{`{"String": null}`, "args.String: expected a string, got null"},

		{`{"Bytes": ""}`, ""},
		{`{"Bytes": null}`, ""},
		{`{"Bytes": "AAAA\nAA==\r\n"}`, ""},
		{`{"Bytes": "+/+="}`, ""},
		{`{"Bytes": "AAA"}`, "args.Bytes: expected base64 text, got another string"},
		{`{"Bytes": "A-_A"}`, "args.Bytes: expected base64 text, got another string"},
		{`{"Bytes": "AAA A"}`, "args.Bytes: expected base64 text, got another string"},
		{`{"Bytes": "AA=="}`, ""},
		{`{"Bytes": "AA==AAAA"}`, "args.Bytes: expected base64 text, got another string"},
		{`{"Bytes": [1]}`, "args.Bytes: expected base64 text, got an array"},

		{`{"QInt": "-5", "QUint8": "255", "QFloat32": "1.5e3", "QFloat64": "-0", "QBool": "true", "QString": "\"a\\\"\\u00e9\"", "QPointer": "7"}`, ""},
		{`{"QInt": -5}`, "args.QInt: " + whole + "-9223372036854775808 to 9223372036854775807, as text in a string, got a number"},
		{`{"QInt": "05"}`, "args.QInt: " + whole + "-9223372036854775808 to 9223372036854775807, as text in a string, got another string"},
		{`{"QUint8": "256"}`, "args.QUint8: " + whole + "0 to 255, as text in a string, got another string"},
		{`{"QFloat32": "1e39"}`, "args.QFloat32: expected a number that fits into a float32, as text in a string, got another string"},
		{`{"QFloat64": "NaN"}`, "args.QFloat64: expected a number that fits into a float64, as text in a string, got another string"},
		{`{"QFloat64": "1e99999999"}`, "args.QFloat64: expected a number that fits into a float64, as text in a string, got another string"},
		{`{"QBool": "1"}`, "args.QBool: expected true or false, as text in a string, got another string"},
		{`{"QString": "a"}`, "args.QString: expected a string, as text in a string, got another string"},
		{`{"QString": "\"a\"b\""}`, "args.QString: expected a string, as text in a string, got another string"},
		{`{"QString": "\"\u0001\""}`, "args.QString: expected a string, as text in a string, got another string"},
		{`{"QPointer": null}`, ""},
		{`{"QPointer": 7}`, "args.QPointer: " + whole + "-9223372036854775808 to 9223372036854775807, as text in a string, got a number"},

		{`{"pointer": null, "pointers": null}`, ""},
		{`{"pointer": 1, "pointers": "x"}`, ""},
		{`{"pointer": 40000}`, "args.pointer: " + whole + "-32768 to 32767, got another number"},
		{`{"pointers": []}`, "args.pointers: expected a string, got an array"},

		{`{"List": []}`, ""},
		{`{"List": null}`, ""},
		{`{"List": {}}`, "args.List: expected an array, got an object"},
		{`{"List": [1, 2, 300]}`, "args.List[2]: " + whole + "-128 to 127, got another number"},
		{`{"List": [null]}`, "args.List[0]: " + whole + "-128 to 127, got null"},
		{`{"Array": [1, 2], "None": [], "Hash": [1, 2, 255]}`, ""},
		{`{"Array": [1]}`, "args.Array: expected an array of 2, got one of 1"},
		{`{"Array": [1, 2, 3]}`, "args.Array: expected an array of 2, got one of 3"},
		{`{"Array": null}`, "args.Array: expected an array of 2, got null"},
		{`{"None": [0]}`, "args.None: expected an array of 0, got one of 1"},
		{`{"Hash": "AAAA"}`, "args.Hash: expected an array of 3, got a string"},
		{`{"Map": {"": true, "x y": false}}`, ""},
		{`{"Map": null}`, ""},
		{`{"Map": []}`, "args.Map: expected an object, got an array"},
		{`{"Map": {"x y": 1}}`, `args.Map["x y"]: expected true or false, got a number`},
		{`{"Deep": {"a": [{"-7": {"x": 1}}], "b": null}}`, ""},
		{`{"Deep": {"a": [{}, {"7": {"x": "1"}}]}}`, `args.Deep.a[1]["7"].x: expected a number that fits into a float32, got a string`},
		{`{"Deep": {"a": [{"7": {}}]}}`, `args.Deep.a[0]["7"].x: the member is missing`},
		{`{"Signed": {"-128": 1, "0": 2}}`, ""},
		{`{"Signed": {"128": 1}}`, `args.Signed["128"]: of the key: ` + whole + `-128 to 127, as text in a string, got another string`},
		{`{"Signed": {"+1": 1}}`, `args.Signed["+1"]: of the key: ` + whole + `-128 to 127, as text in a string, got another string`},
		{`{"Whole": {"18446744073709551615": ""}}`, ""},
		{`{"Whole": {"-1": ""}}`, `args.Whole["-1"]: of the key: ` + whole + `0 to 18446744073709551615, as text in a string, got another string`},
		{`{"IDs": {"6ba7b810-9dad-11d1-80b4-00c04fd430c8": 1}}`, ""},
		{`{"IDs": {"x": 1}}`, `args.IDs.x: of the key: expected a UUID with hyphens and in lower case, got another string`},

		{`{"Struct": {"n": 1, "kids": null}}`, ""},
		{`{"Struct": {"n": 1, "kids": [{"n": 2, "kids": [], "text": "t", "next": {"n": 3, "kids": null}}]}}`, ""},
		{`{"Struct": {"n": 1}}`, "args.Struct.kids: the member is missing"},
		{`{"Struct": {"N": 1, "kids": null}}`, "args.Struct.N: there is no such member; there are n, text, next, kids"},
		{`{"Struct": {"n": 1, "kids": [{"n": 2, "kids": [], "next": {"n": "3", "kids": []}}]}}`, "args.Struct.kids[0].next.n: " + whole + "-9223372036854775808 to 9223372036854775807, got a string"},
		{`{"Wide": {}}`, ""},
		{`{"Wide": {"a": 1}}`, "args.Wide.a: there is no such member"},

		{`{"ID": "6ba7b810-9dad-11d1-80b4-00c04fd430c8"}`, ""},
		{`{"ID": "6BA7B810-9DAD-11D1-80B4-00C04FD430C8"}`, "args.ID: expected a UUID with hyphens and in lower case, got another string"},
		{`{"ID": "6ba7b8109dad11d180b400c04fd430c8"}`, "args.ID: expected a UUID with hyphens and in lower case, got another string"},
		{`{"ID": null}`, "args.ID: expected a UUID with hyphens and in lower case, got null"},
		{`{"Time": "2024-02-29T23:59:59Z"}`, ""},
		{`{"Time": "2026-11-29T18:00:00.123456+05:30"}`, ""},
		{`{"Time": "0000-02-29T00:00:00Z"}`, ""},
		{`{"Time": "2026-02-29T00:00:00Z"}`, "args.Time: expected a time such as 2026-01-31T23:59:59.5Z, with Z or an offset, got another string"},
		{`{"Time": "1900-02-29T00:00:00Z"}`, "args.Time: expected a time such as 2026-01-31T23:59:59.5Z, with Z or an offset, got another string"},
		{`{"Time": "2026-04-31T00:00:00Z"}`, "args.Time: expected a time such as 2026-01-31T23:59:59.5Z, with Z or an offset, got another string"},
		{`{"Time": "2026-11-29T18:00:00"}`, "args.Time: expected a time such as 2026-01-31T23:59:59.5Z, with Z or an offset, got another string"},
		{`{"Time": "2026-11-29 18:00:00Z"}`, "args.Time: expected a time such as 2026-01-31T23:59:59.5Z, with Z or an offset, got another string"},
		{`{"Time": "2026-11-29T24:00:00Z"}`, "args.Time: expected a time such as 2026-01-31T23:59:59.5Z, with Z or an offset, got another string"},
		{`{"Time": "infinity"}`, "args.Time: expected a time such as 2026-01-31T23:59:59.5Z, with Z or an offset, got another string"},
		{`{"Time": 1764439200}`, "args.Time: expected a time such as 2026-01-31T23:59:59.5Z, with Z or an offset, got a number"},
		{`{"Raw": {"any": ["thing", null]}}`, ""},
		{`{"Raw": null}`, ""},
		{`{"Number": 1.50, "QNumber": "1e5"}`, ""},
		{`{"Number": "1"}`, "args.Number: expected a number, got a string"},
		{`{"QNumber": 1}`, "args.QNumber: expected a number, as text in a string, got a number"},
		{`{"QNumber": "0x1"}`, "args.QNumber: expected a number, as text in a string, got another string"},
		{`{"Big": 123456789012345678901234567890}`, ""},
		{`{"Big": null}`, ""},
		{`{"a.b c": 1}`, `args["a.b c"]: expected a string, got a number`},
	} {
		got := misfit(t, pool, all, c.args)
		require.Equal(t, c.want, got, "%s", c.args)
		if got == "" { // what fits must decode as it is read back
			var v everyKind
			require.NoError(t, json.Unmarshal([]byte(query[string](t, pool, `SELECT $1::jsonb::text`, c.args)), &v), "%s", c.args)
		}
	}

	required := shapeOf(t, reflect.TypeFor[struct {
		Text  string
		List  []int
		Raw   json.RawMessage
		ID    uuid.UUID
		Maybe *bool
	}]())
	const id = `"ID": "6ba7b810-9dad-11d1-80b4-00c04fd430c8"`
	require.Empty(t, misfit(t, pool, required, `{"Text": "", "List": null, "Raw": null, `+id+`}`))
	require.Equal(t, "args.Text: the member is missing", misfit(t, pool, required, `{"List": null, "Raw": null, `+id+`}`))
	require.Equal(t, "args.List: the member is missing", misfit(t, pool, required, `{"Text": "", "Raw": null, `+id+`}`))
	require.Equal(t, "args.Raw: the member is missing", misfit(t, pool, required, `{"Text": "", "List": null, `+id+`}`))
	require.Equal(t, "args.ID: the member is missing", misfit(t, pool, required, `{"Text": "", "List": null, "Raw": null}`))
	require.Equal(t, "args.text: there is no such member; there are Text, List, Raw, ID, Maybe", misfit(t, pool, required, `{"text": "", "List": null, "Raw": null, `+id+`}`),
		"a typo is told as one, not as the member that it leaves out")

	// What only a method knows is left to it, and so is what this release does not know.
	require.Empty(t, misfit(t, pool, all, `{"Big": "no number"}`))
	require.Empty(t, misfit(t, pool, `{"root":{"kind":"of the future"}}`, `{"a": 1}`))
	require.Empty(t, query[string](t, pool, `SELECT COALESCE(pawl.misfit('[1]', NULL), '')`))
	require.Equal(t, "args: expected a JSON value, got NULL of SQL", query[string](t, pool, `SELECT pawl.misfit(NULL, '{}')`))
}

// Payloads that are no structs, as any type with a shape can be one.
func TestMisfitOfOtherRoots(t *testing.T) {
	t.Parallel()
	_, pool := open(t)
	for typ, args := range map[reflect.Type][2]string{
		reflect.TypeFor[[]int]():             {`[1, 2]`, `{}`},
		reflect.TypeFor[map[string]string](): {`{"a": "b"}`, `{"a": 1}`},
		reflect.TypeFor[*node]():             {`{"n": 1, "kids": null}`, `{"n": 1, "kids": 1}`},
		reflect.TypeFor[string]():            {`"x"`, `1`},
		reflect.TypeFor[[2]bool]():           {`[true, false]`, `[true]`},
	} {
		s := shapeOf(t, typ)
		require.Empty(t, misfit(t, pool, s, args[0]), "%v", typ)
		require.NotEmpty(t, misfit(t, pool, s, args[1]), "%v", typ)
	}
}

// A payload may nest as deep as encoding/json goes, and be as large as it likes,
// without exhausting a stack.
func TestMisfitGoesDeep(t *testing.T) {
	t.Parallel()
	_, pool := open(t)
	type link struct {
		Next *link `json:"next"`
	}
	const depth = 2_000
	chain := strings.Repeat(`{"next":`, depth) + "%" + strings.Repeat("}", depth)
	s := shapeOf(t, reflect.TypeFor[link]())
	require.Empty(t, misfit(t, pool, s, strings.Replace(chain, "%", "null", 1)))
	require.Equal(t, "args"+strings.Repeat(".next", depth)+": expected an object, got a number", misfit(t, pool, s, strings.Replace(chain, "%", "1", 1)))

	many := "[" + strings.Repeat("1,", 100_000) + `"x"]`
	require.Equal(t, "args[100000]: expected a number that fits into a float64, got a string", misfit(t, pool, shapeOf(t, reflect.TypeFor[[]float64]()), many))
}

// Whatever Go writes fits, and whatever fits Go reads.
func TestMisfitAgreesWithGo(t *testing.T) {
	t.Parallel()
	_, pool := open(t)
	r := rand.New(rand.NewPCG(7, 11))
	accepted, refused := 0, 0
	for _, typ := range []reflect.Type{
		reflect.TypeFor[everyKind](), reflect.TypeFor[node](), reflect.TypeFor[[]everyKind](), reflect.TypeFor[map[int16]*node](),
		reflect.TypeFor[struct {
			node
			ID   uuid.UUID
			At   *time.Time
			Keep map[string]time.Duration
			Sums [2][]float32
		}](),
	} {
		s := shapeOf(t, typ)
		for range 120 {
			v := reflect.New(typ)
			randomize(r, v.Elem(), 4)
			raw, err := json.Marshal(v.Interface())
			require.NoError(t, err)
			require.Empty(t, misfit(t, pool, s, string(raw)), "%s", raw)
			require.NoError(t, json.Unmarshal([]byte(query[string](t, pool, `SELECT $1::jsonb::text`, string(raw))), reflect.New(typ).Interface()))

			for range 6 {
				mutated := mutate(t, r, raw)
				got := misfit(t, pool, s, mutated)
				if got != "" {
					refused++
					continue
				}
				accepted++
				stored := query[string](t, pool, `SELECT $1::jsonb::text`, mutated)
				if err := json.Unmarshal([]byte(stored), reflect.New(typ).Interface()); err != nil {
					// A type that encodes itself is taken on trust.
					require.ErrorContains(t, err, "math/big", "%s", stored)
				}
			}
		}
	}
	require.Greater(t, accepted, 100)
	require.Greater(t, refused, 1000)
}

// Every construct of payloads that the generator's tests have fits as Go writes
// it. Left out are structs that embed a pointer: their members are required, and
// Go leaves them out of a nil one.
func TestMisfitTakesWhatGoWrites(t *testing.T) {
	t.Parallel()
	_, pool := open(t)
	r := rand.New(rand.NewPCG(13, 17))
	for _, typ := range []reflect.Type{
		reflect.TypeFor[family.Scalars](), reflect.TypeFor[family.Containers](), reflect.TypeFor[family.Encoded](), reflect.TypeFor[family.Options](),
		reflect.TypeFor[family.Embedded](), reflect.TypeFor[family.Shadowed](), reflect.TypeFor[family.Ambiguous](), reflect.TypeFor[family.TagWins](),
		reflect.TypeFor[family.Given](), reflect.TypeFor[family.GivenHidden](), reflect.TypeFor[family.BothNames](), reflect.TypeFor[family.NoStruct](),
		reflect.TypeFor[family.Depth](), reflect.TypeFor[family.Diamond](), reflect.TypeFor[family.SameGoName](), reflect.TypeFor[family.EmbedsAlias](),
		reflect.TypeFor[family.Anonymous](), reflect.TypeFor[family.Node](), reflect.TypeFor[family.Generics](), reflect.TypeFor[family.InstantiatedRoot](),
		reflect.TypeFor[family.Value](),
	} {
		s := shapeOf(t, typ)
		for range 40 {
			v := reflect.New(typ)
			randomize(r, v.Elem(), 6)
			raw, err := json.Marshal(v.Interface())
			require.NoError(t, err)
			require.Empty(t, misfit(t, pool, s, string(raw)), "%v: %s", typ, raw)
		}
	}
	s := shapeOf(t, reflect.TypeFor[family.ByPointer]())
	require.Empty(t, misfit(t, pool, s, `{"id": "x", "Also": true}`))
	require.Equal(t, "args.id: the member is missing", misfit(t, pool, s, `{}`))
}

// randomize gives v some value, with the edges of its type more often than
// chance would.
func randomize(r *rand.Rand, v reflect.Value, depth int) {
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		*x = time.Unix(r.Int64N(4e9)-2e9, r.Int64N(1e9)).In(time.FixedZone("", (r.IntN(47)-23)*1800))
		return
	case *uuid.UUID:
		for i := range x {
			x[i] = byte(r.Uint32())
		}
		return
	case *json.RawMessage:
		*x = json.RawMessage([]string{`null`, `{"a":[1,"x"]}`, `1.50`, `"s"`}[r.IntN(4)])
		return
	case *json.Number:
		*x = json.Number([]string{"0", "-1.5", "1e30", "123456789012345678901234567890"}[r.IntN(4)])
		return
	case *big.Int:
		x.SetUint64(r.Uint64()).Lsh(x, uint(r.IntN(100)))
		return
	}
	edge := r.IntN(4)
	bits := func() uint { return uint(v.Type().Bits()) }
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt([]int64{0, math.MinInt64 >> (64 - bits()), math.MaxInt64 >> (64 - bits()), int64(r.Uint64()) >> (64 - bits()) >> r.IntN(int(bits()))}[edge])
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		v.SetUint([]uint64{0, 1, math.MaxUint64 >> (64 - bits()), r.Uint64() >> (64 - bits()) >> r.IntN(int(bits()))}[edge])
	case reflect.Float32:
		v.SetFloat([]float64{0, math.MaxFloat32, math.SmallestNonzeroFloat32, float64(float32(r.NormFloat64()))}[edge])
	case reflect.Float64:
		v.SetFloat([]float64{0, -math.MaxFloat64, math.SmallestNonzeroFloat64, r.NormFloat64() * math.Pow(10, float64(r.IntN(40)-20))}[edge])
	case reflect.String:
		v.SetString([]string{"", "true", "7", "\"\\/\b\n\u2028é😀<&>\u007f" + "null"}[edge])
	case reflect.Pointer:
		if depth > 0 && edge > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			randomize(r, v.Elem(), depth-1)
		}
	case reflect.Slice:
		if depth <= 0 || edge == 0 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(4), 4))
		for i := range v.Len() {
			randomize(r, v.Index(i), depth-1)
		}
	case reflect.Array:
		for i := range v.Len() {
			randomize(r, v.Index(i), depth-1)
		}
	case reflect.Map:
		if depth <= 0 || edge == 0 {
			return
		}
		v.Set(reflect.MakeMap(v.Type()))
		for range r.IntN(4) {
			key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			randomize(r, key, depth-1)
			randomize(r, elem, depth-1)
			v.SetMapIndex(key, elem)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				randomize(r, v.Field(i), depth-1)
			}
		}
	}
}

// mutate changes one value somewhere in some JSON.
func mutate(t *testing.T, r *rand.Rand, raw []byte) string {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	var root any
	require.NoError(t, d.Decode(&root))
	var change func(v any) any
	change = func(v any) any {
		switch x := v.(type) {
		case map[string]any:
			if len(x) > 0 && r.IntN(8) > 0 {
				keys := make([]string, 0, len(x))
				for k := range x {
					keys = append(keys, k)
				}
				slices.Sort(keys)
				key := keys[r.IntN(len(keys))]
				switch r.IntN(12) {
				case 0:
					x["128"] = x[key]
				case 1:
					delete(x, key)
				default:
					x[key] = change(x[key])
				}
				return x
			}
		case []any:
			if len(x) > 0 && r.IntN(4) > 0 {
				i := r.IntN(len(x))
				x[i] = change(x[i])
				return x
			}
		}
		return []any{
			nil, true, "", "x", "7", "-1", "300", "1e5", "AAAA", "AAA=", "true", `"q"`, "2026-02-30T00:00:00Z", "2026-02-28T00:00:00+23:59", uuid.Max.String(),
			json.Number("0"), json.Number("-1"), json.Number("127"), json.Number("128"), json.Number("65536"), json.Number("1.0"), json.Number("1.5"),
			json.Number("1e2"), json.Number("1e39"), json.Number("1e309"), json.Number("1e-400"), json.Number("18446744073709551616"),
			[]any{}, []any{json.Number("1"), json.Number("2")}, map[string]any{}, map[string]any{"1": json.Number("1")},
		}[r.IntN(31)]
	}
	out, err := json.Marshal(change(root))
	require.NoError(t, err)
	return string(out)
}

// The functions work in any database's session, whatever it takes backslashes
// for.
func TestMisfitInAnySession(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t, testdb.Configure(func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["standard_conforming_strings"] = "off"
		c.ConnConfig.RuntimeParams["search_path"] = ""
	}))
	s := shapeOf(t, reflect.TypeFor[everyKind]())
	require.Empty(t, misfit(t, pool, s, `{"QString": "\"a\\\"\"", "Bytes": "AA==", "QFloat64": "1.5"}`))
	require.NotEmpty(t, misfit(t, pool, s, `{"QString": "\"a\\\""}`))
}
