package rules_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/gen/rules"
	"github.com/pawlgo/pawl/internal/gen/shape"
)

// TestVerdictsHold makes random pairs of types and random values, and lets
// encoding/json carry these over: in the directions that the verdict promises,
// no value may be lost. It also makes sure that it would notice: rules that
// promise less must have been seen with a loss.
func TestVerdictsHold(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(2026, 11))
	s := &seen{verdicts: map[rules.Verdict]int{}, alone: map[string]int{}, back: map[string]bool{}, forward: map[string]bool{}}
	for range 10_000 {
		s.pair(t, r)
	}
	for v := rules.Compatible; v <= rules.Breaking; v++ {
		require.Greater(t, s.verdicts[v], 800, v)
	}
	for _, rule := range rules.All() {
		if rule.Declaration || s.alone[rule.ID] < 40 {
			continue
		}
		switch rule.ID {
		case "field-removed", "json-name-changed", "json-case-changed", "fields-nested", "fields-unnested":
			continue // what is compared here is fields of one name
		}
		require.Equal(t, rule.Back != rules.Kept, s.back[rule.ID], "%s: old payloads and new code", rule.ID)
		if rule.Verdict == rules.BackwardOnly {
			require.True(t, s.forward[rule.ID], "%s: new payloads and old code", rule.ID)
		}
	}
	require.Greater(t, len(s.alone), 35, "most rules have a pair that shows nothing else")
}

func FuzzCompare(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, a, b uint64) {
		new(seen).pair(t, rand.New(rand.NewPCG(a, b)))
	})
}

// seen is what was seen in pairs.
type seen struct {
	verdicts map[rules.Verdict]int
	// alone counts, for the rules that were the only finding of a pair, the values
	// that were tried; back and forward are those with which one was lost.
	alone         map[string]int
	back, forward map[string]bool
}

// pair tries one random pair of types.
func (s *seen) pair(t *testing.T, r *rand.Rand) {
	was := planStruct(r, 3)
	is := was.change(r)
	oldType, newType := was.build(), is.build()
	old, new := shapeOfType(t, oldType), shapeOfType(t, newType)
	findings := rules.Compare(old, new)
	require.Equal(t, len(findings) == 0, shape.Equal(old, new), "%s\n%s\n%v", oldType, newType, findings)

	verdict := rules.Worst(findings)
	if s.verdicts != nil {
		s.verdicts[verdict]++
	}
	alone := s.alone != nil && len(findings) == 1
	if verdict == rules.Breaking && !alone {
		return // nothing is promised
	}
	for range 4 {
		back := carry(r, old, new, oldType, newType)
		if verdict < rules.Breaking {
			require.NoError(t, back, "old payloads and new code: %v\nold %s\nnew %s", found(findings), oldType, newType)
		}
		forward := carry(r, new, old, newType, oldType)
		if verdict < rules.BackwardOnly {
			require.NoError(t, forward, "new payloads and old code: %v\nold %s\nnew %s", found(findings), oldType, newType)
		}
		if alone {
			id := findings[0].Rule.ID
			s.alone[id]++
			s.back[id] = s.back[id] || back != nil
			s.forward[id] = s.forward[id] || forward != nil
		}
	}
}

func shapeOfType(t testing.TB, typ reflect.Type) *shape.Shape {
	s, err := shape.FromReflect(typ)
	require.NoError(t, err)
	require.NoError(t, s.Validate())
	return s
}

// carry lets a random value of one type be read as another and reports what does
// not arrive.
func carry(r *rand.Rand, from, to *shape.Shape, sender, receiver reflect.Type) error {
	v := reflect.New(sender)
	fill(r, v.Elem(), 3)
	wire, err := json.Marshal(v.Interface())
	if err != nil {
		return fmt.Errorf("cannot be sent: %w", err)
	}
	got := reflect.New(receiver)
	if err := json.Unmarshal(wire, got.Interface()); err != nil {
		return fmt.Errorf("%s: %w", wire, err)
	}
	again, err := json.Marshal(got.Interface())
	if err != nil {
		return err
	}
	sent, arrived := numbers(wire), numbers(again)
	a := arrival{from, to}
	if err := a.same(from.Root, to.Root, sent, arrived); err != nil {
		return fmt.Errorf("%s arrived as %s: %w", wire, again, err)
	}
	return nil
}

func numbers(raw []byte) any {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		panic(err) // encoding/json wrote it
	}
	return v
}

// arrival compares what was sent with what the receiver would send.
type arrival struct{ from, to *shape.Shape }

// same reports what was sent and has not arrived. It looks at the values, and at
// the shapes only to tell fields that both codes know.
func (a arrival) same(o, n shape.Node, sent, arrived any) error {
	for o.Kind == shape.Pointer {
		o = *o.Elem
	}
	for n.Kind == shape.Pointer {
		n = *n.Elem
	}
	switch sent := sent.(type) {
	case map[string]any:
		object, ok := arrived.(map[string]any)
		if !ok {
			break
		}
		if o.Kind == shape.Struct && n.Kind == shape.Struct {
			return a.object(o, n, sent, object)
		}
		if len(object) != len(sent) {
			return fmt.Errorf("%d members and %d", len(sent), len(object))
		}
		for key, v := range sent {
			if err := a.same(part(o), part(n), v, object[key]); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
		return nil
	case []any:
		if text, ok := arrived.(string); ok && n.Kind == shape.Bytes {
			arrived = elements(text)
		}
		list, ok := arrived.([]any)
		if !ok || len(list) != len(sent) {
			break
		}
		for i := range sent {
			if err := a.same(part(o), part(n), sent[i], list[i]); err != nil {
				return fmt.Errorf("[%d]: %w", i, err)
			}
		}
		return nil
	case json.Number:
		if number, ok := arrived.(json.Number); ok && rational(sent).Cmp(rational(number)) == 0 {
			return nil
		}
	default:
		if sent == arrived {
			return nil
		}
	}
	return fmt.Errorf("%v and %v", sent, arrived)
}

// elements decodes base64 text into the numbers of its bytes.
func elements(text string) []any {
	content, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		panic(err) // encoding/json wrote it
	}
	list := []any{}
	for _, b := range content {
		list = append(list, json.Number(strconv.Itoa(int(b))))
	}
	return list
}

// part is the node of the elements, and none where the shape does not say.
func part(n shape.Node) shape.Node {
	if n.Elem == nil {
		return shape.Node{}
	}
	return *n.Elem
}

func (a arrival) object(o, n shape.Node, sent, arrived map[string]any) error {
	known := map[string]shape.Field{}
	for _, f := range a.to.Structs[n.Ref].Fields {
		known[f.JSON] = f
	}
	for _, f := range a.from.Structs[o.Ref].Fields {
		receives, common := known[f.JSON]
		if !common {
			continue
		}
		delete(known, f.JSON)
		was, wasSent := sent[f.JSON]
		is, hasArrived := arrived[f.JSON]
		switch {
		case wasSent && hasArrived:
			if err := a.same(f.Type, receives.Type, was, is); err != nil {
				return fmt.Errorf("%s: %w", f.JSON, err)
			}
		case !a.nothing(f.Type, receives.Type, was) || !a.nothing(f.Type, receives.Type, is):
			return fmt.Errorf("%s: %v and %v", f.JSON, was, is)
		}
	}
	for name := range known {
		if !isZero(arrived[name]) {
			return fmt.Errorf("%s: came from nowhere", name)
		}
	}
	return nil
}

// nothing reports whether v may be left out by either code: it is zero but for
// fields that only one of them knows.
func (a arrival) nothing(o, n shape.Node, v any) bool {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if !a.nothing(part(o), part(n), e) {
				return false
			}
		}
		return true
	case map[string]any:
		if o.Kind != shape.Struct || n.Kind != shape.Struct {
			break
		}
		types := map[string]shape.Node{}
		for _, f := range a.to.Structs[n.Ref].Fields {
			types[f.JSON] = f.Type
		}
		for _, f := range a.from.Structs[o.Ref].Fields {
			if typ, common := types[f.JSON]; common && !a.nothing(f.Type, typ, v[f.JSON]) {
				return false
			}
		}
		return true
	}
	return isZero(v)
}

// isZero reports whether v is what a zero value is encoded as, or left out.
func isZero(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case json.Number:
		return rational(v).Sign() == 0
	case string:
		return v == "" || v == "0" || v == "false" || v == "0l" || v == uuid.Nil.String() || v == time.Time{}.Format(time.RFC3339)
	case []any:
		for _, e := range v {
			if !isZero(e) {
				return false
			}
		}
		return true
	case map[string]any:
		for _, e := range v {
			if !isZero(e) {
				return false
			}
		}
		return true
	}
	return false
}

func rational(n json.Number) *big.Rat {
	r, ok := new(big.Rat).SetString(string(n))
	if !ok {
		panic("no number: " + string(n))
	}
	return r
}
