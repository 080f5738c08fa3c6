// Package check sends random values through generated code and holds what comes
// out against encoding/json.
package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"net"
	"net/netip"
	"reflect"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pawlgo/pawl/internal/dispatch"
	"github.com/pawlgo/pawl/task"
)

// A Task is one declaration.
type Task struct {
	Name string
	// Run sends one value on its way.
	Run func(*rand.Rand) error
}

type enqueue[A any] = func(context.Context, task.Tx, A, ...task.EnqueueOption) (task.Receipt, error)

// Of checks a declaration with the payload A, whose handler puts what it gets
// into got. Where hides says that a field hides another, that one is lost by the
// user's own decision, and only encoding/json is the measure.
func Of[A any](name, kind string, enqueue enqueue[A], tables []task.Table, got *any, hides bool) Task {
	return Task{name, func(r *rand.Rand) error {
		var want, plain A
		fill(r, reflect.ValueOf(&want).Elem(), 0)
		raw, err := json.Marshal(&want)
		if err != nil {
			return fmt.Errorf("encoding/json refuses %+v: %w", want, err)
		}
		if err := json.Unmarshal(raw, &plain); err != nil {
			return fmt.Errorf("encoding/json does not decode its own %s: %w", raw, err)
		}
		var tx recorder
		if _, err := enqueue(context.Background(), &tx, want); !errors.Is(err, errNoDatabase) {
			return fmt.Errorf("enqueue of %s: %w", raw, err)
		}
		if tx.payload != string(raw) {
			return fmt.Errorf("stored %s instead of %s", tx.payload, raw)
		}
		row, ok := rowOf(tables, kind)
		if !ok {
			return fmt.Errorf("no row for the kind %s", kind)
		}
		if err := fits(raw, row.Registration); err != nil {
			return err
		}
		*got = nil
		run := row.Run
		if row.RunTx != nil {
			run = func(ctx context.Context, d *dispatch.Delivery) error { return row.RunTx(ctx, nil, d) }
		}
		if err := run(context.Background(), &dispatch.Delivery{Kind: kind, Version: row.Current, Attempt: 1, Args: raw}); err != nil {
			return fmt.Errorf("run with %s: %w", raw, err)
		}
		if !reflect.DeepEqual(*got, any(plain)) {
			return fmt.Errorf("decoded %+v, and encoding/json %+v", *got, plain)
		}
		if !hides && !reflect.DeepEqual(plain, want) {
			return fmt.Errorf("lost on the way: %s was %+v and is %+v", raw, want, plain)
		}
		return nil
	}}
}

func rowOf(tables []task.Table, kind string) (dispatch.Row, bool) {
	for _, table := range tables {
		for _, row := range dispatch.Rows(table) {
			if row.Kind == kind {
				return row, true
			}
		}
	}
	return dispatch.Row{}, false
}

// fits holds what plain SQL is told against what Go stores: the members of the
// object, and which of them order the jobs.
func fits(raw []byte, told *dispatch.Registration) error {
	var shape struct {
		Root    struct{ Kind, Ref string }
		Structs map[string][]struct{ JSON string }
	}
	if err := json.Unmarshal([]byte(told.Shape), &shape); err != nil {
		return fmt.Errorf("the shape %s: %w", told.Shape, err)
	}
	if shape.Root.Kind != "struct" {
		if len(told.Order) > 0 || told.OrganizationField != "" {
			return fmt.Errorf("members of %s, which is no object", shape.Root.Kind)
		}
		return nil
	}
	members := map[string]bool{}
	for _, f := range shape.Structs[shape.Root.Ref] {
		members[f.JSON] = true
	}
	var stored map[string]json.RawMessage
	if err := json.Unmarshal(raw, &stored); err != nil {
		return fmt.Errorf("%s is no object: %w", raw, err)
	}
	for name := range stored {
		if !members[name] {
			return fmt.Errorf("%s has a member %s, and the shape has not: %s", raw, name, told.Shape)
		}
	}
	for _, name := range told.Order {
		if !members[name] {
			return fmt.Errorf("the order is by %s, which is not in %s", name, told.Shape)
		}
	}
	if name := told.OrganizationField; name != "" && !members[name] {
		return fmt.Errorf("the organization is %s, which is not in %s", name, told.Shape)
	}
	return nil
}

// recorder is a transaction that keeps the payload.
type recorder struct{ payload string }

func (r *recorder) QueryRow(_ context.Context, _ string, args ...any) pgx.Row {
	for i, a := range args {
		// One job without keys comes as plain values.
		if text, ok := a.(string); ok && i == 9 {
			r.payload = text
		}
		// The payloads are the first list of JSON.
		if list, ok := a.([]string); ok && r.payload == "" && json.Valid([]byte(list[0])) {
			r.payload = list[0]
		}
	}
	return noRow{}
}

func (*recorder) Commit(context.Context) error { return errNoDatabase }

type noRow struct{}

func (noRow) Scan(...any) error { return errNoDatabase }

var errNoDatabase = errors.New("no database")

// fill gives v a random value that has one form only: no slice is empty without
// being nil, and what is pointed to is never nil.
func fill(r *rand.Rand, v reflect.Value, depth int) {
	switch p := v.Addr().Interface().(type) {
	case *time.Time:
		*p = time.Unix(r.Int64N(4e9), r.Int64N(1e9)).UTC()
		return
	case *big.Int:
		p.SetString(strings.TrimLeft(digits(r, 40), "0")+"1", 10)
		return
	case *json.Number:
		*p = json.Number("1" + digits(r, 30) + ".5e-3")
		return
	case *json.RawMessage:
		*p = json.RawMessage([]string{`{"a":[1,2.50,"x"]}`, `12345678901234567890`, `"s"`, `[]`, `true`}[r.IntN(5)])
		return
	case *netip.Addr:
		*p = netip.AddrFrom4([4]byte{byte(r.Uint32()), 2, 3, 4})
		return
	case *netip.Prefix:
		*p = netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(r.Uint32()), 0, 0, 0}), r.IntN(33))
		return
	case *net.IP:
		*p = net.IPv4(1, 2, 3, byte(r.Uint32())) // 16 bytes, as it is decoded
		return
	}
	deep := depth > 5
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		bits := v.Type().Bits()
		v.SetInt(int64(r.Uint64()) >> (64 - bits) >> r.IntN(bits))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		bits := v.Type().Bits()
		v.SetUint(r.Uint64() >> (64 - bits) >> r.IntN(bits))
	case reflect.Float32:
		v.SetFloat(float64(math.Float32frombits(r.Uint32() &^ (1 << 30)))) // finite
	case reflect.Float64:
		v.SetFloat(math.Float64frombits(r.Uint64() &^ (1 << 62)))
	case reflect.String:
		v.SetString(text(r))
	case reflect.Pointer:
		if !deep && r.IntN(5) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			pointee(r, v.Elem(), depth+1)
		}
	case reflect.Slice:
		if !deep && r.IntN(5) > 0 {
			slice(r, v, depth)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(r, v.Index(i), depth+1)
		}
	case reflect.Map:
		if !deep && r.IntN(5) > 0 {
			entries(r, v, depth)
		}
	case reflect.Struct:
		fields(r, v, depth)
	}
}

// pointee fills what a pointer points to, which would come back as a nil pointer
// if it were null.
func pointee(r *rand.Rand, v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		pointee(r, v.Elem(), depth+1)
	case reflect.Slice:
		if _, ok := v.Addr().Interface().(json.Unmarshaler); ok {
			fill(r, v, depth)
			return
		}
		if fill(r, v, depth); v.IsNil() {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
	case reflect.Map:
		if fill(r, v, depth); v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
	default:
		fill(r, v, depth)
	}
}

func slice(r *rand.Rand, v reflect.Value, depth int) {
	v.Set(reflect.MakeSlice(v.Type(), 1+r.IntN(3), 4))
	for i := range v.Len() {
		fill(r, v.Index(i), depth+1)
	}
}

func entries(r *rand.Rand, v reflect.Value, depth int) {
	v.Set(reflect.MakeMap(v.Type()))
	for range 1 + r.IntN(3) {
		key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(r, key, depth+1)
		fill(r, elem, depth+1)
		v.SetMapIndex(key, elem)
	}
}

func fields(r *rand.Rand, v reflect.Value, depth int) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		embedded := f.Anonymous && f.Type.Kind() == reflect.Struct
		if f.Tag.Get("json") == "-" || !f.IsExported() && !embedded {
			continue // the declaration says so
		}
		if !f.IsExported() {
			fields(r, v.Field(i), depth+1)
			continue
		}
		fill(r, v.Field(i), depth+1)
	}
}

var letters = []rune(`abcXYZ019 "\/<>&'` + "\t\n\u007f\u00e9\u2028\ufffd\U0001f600")

func text(r *rand.Rand) string {
	all := make([]rune, r.IntN(6))
	for i := range all {
		all[i] = letters[r.IntN(len(letters))]
	}
	return string(all)
}

func digits(r *rand.Rand, n int) string {
	var b strings.Builder
	for range 1 + r.IntN(n) {
		b.WriteByte('0' + byte(r.IntN(10)))
	}
	return b.String()
}
