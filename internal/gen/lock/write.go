package lock

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pawlgo/pawl/internal/gen/shape"
)

// Bytes returns the file, or nil for a lock that has promised nothing.
func (l *Lock) Bytes() []byte {
	if l == nil || len(l.Kinds) == 0 {
		return nil
	}
	kinds := block{open: "{", close: "}"}
	for _, name := range slices.Sorted(maps.Keys(l.Kinds)) {
		kinds.add(name, l.Kinds[name].entry())
	}
	file := block{open: "{", close: "}"}
	file.add("format", line(Format))
	file.add("codec", line(Codec))
	file.add("kinds", kinds)
	var out bytes.Buffer
	file.write(&out, "")
	out.WriteByte('\n')
	return out.Bytes()
}

func (k *Kind) entry() value {
	entry := block{open: "{", close: "}"}
	if k.Task != "" {
		entry.add("task", line(k.Task))
	}
	if k.Aggregate != "" {
		entry.add("aggregate", line(k.Aggregate))
	}
	if k.AliasOf != "" {
		entry.add("alias_of", line(k.AliasOf))
	}
	if k.Identity != nil {
		entry.add("idempotency", k.Identity.entry())
		if k.Identity.Organization != nil {
			entry.add("organization", line(k.Identity.Organization))
		}
	}
	if k.Order != nil {
		entry.add("order", k.Order.entry())
	}
	accepted := block{open: "[", close: "]"}
	for _, a := range slices.SortedFunc(slices.Values(k.Accepted), compareAcceptances) {
		accepted.add("", line(a))
	}
	entry.addBlock("accepted", accepted)
	reserved := block{open: "{", close: "}"}
	for _, path := range slices.Sorted(maps.Keys(k.Reserved)) {
		reserved.add(path, line(k.Reserved[path]))
	}
	entry.addBlock("reserved", reserved)
	retired := block{open: "{", close: "}"}
	for _, n := range slices.Sorted(maps.Keys(k.Retired)) {
		retired.add(strconv.Itoa(n), line(k.Retired[n]))
	}
	entry.addBlock("retired", retired)
	versions := block{open: "{", close: "}"}
	for _, n := range slices.Sorted(maps.Keys(k.Versions)) {
		versions.add(strconv.Itoa(n), k.Versions[n].entry())
	}
	entry.addBlock("versions", versions)
	return entry
}

func (i *Identity) entry() value {
	fields := block{open: "[", close: "]"}
	for _, f := range i.Fields {
		fields.add("", line(f))
	}
	return fields
}

func compareAcceptances(a, b Acceptance) int {
	return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Reason, b.Reason))
}

func (v *Version) entry() value {
	entry := block{open: "{", close: "}"}
	if !v.Base.IsZero() {
		entry.add("base", line(v.Base))
	}
	if v.Upgrader {
		entry.add("upgrader", line(true))
	}
	if v.Shape == nil {
		return entry
	}
	entry.addShape(v.Shape)
	return entry
}

func (b *block) addShape(s *shape.Shape) {
	b.add("root", line(s.Root))
	structs := block{open: "{", close: "}"}
	for _, name := range slices.Sorted(maps.Keys(s.Structs)) {
		fields := block{open: "[", close: "]"}
		for _, f := range sorted(s.Structs[name].Fields) {
			fields.add("", line(f))
		}
		structs.add(name, fields)
	}
	b.addBlock("structs", structs)
}

// Spell writes a shape as the lock does, in one line:
// {"root":{...},"structs":{...}}.
func Spell(s *shape.Shape) string {
	object := block{open: "{", close: "}"}
	object.addShape(s)
	var lines, out bytes.Buffer
	object.write(&lines, "")
	if err := json.Compact(&out, lines.Bytes()); err != nil {
		panic(err) // it was made of JSON
	}
	return out.String()
}

// sorted has the fields in an order that moving them in the source does not
// change.
func sorted(fields []shape.Field) []shape.Field {
	return slices.SortedFunc(slices.Values(fields), func(a, b shape.Field) int { return cmp.Compare(a.JSON, b.JSON) })
}

// value is something to be written behind a name, or in a list.
type value interface {
	write(out *bytes.Buffer, indent string)
}

// text is a value on one line.
type text []byte

func (t text) write(out *bytes.Buffer, _ string) { out.Write(t) }

func line(v any) text {
	var out strings.Builder
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // nothing in a lock can fail to encode
	}
	return text(strings.TrimSuffix(out.String(), "\n"))
}

// block is an object or a list with one entry a line.
type block struct {
	open, close string
	names       []string // empty in a list
	values      []value
}

func (b *block) add(name string, v value) {
	b.names, b.values = append(b.names, name), append(b.values, v)
}

// addBlock adds v unless it is empty.
func (b *block) addBlock(name string, v block) {
	if len(v.values) > 0 {
		b.add(name, v)
	}
}

func (b block) write(out *bytes.Buffer, indent string) {
	out.WriteString(b.open)
	inner := indent + "  "
	for i, v := range b.values {
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString("\n" + inner)
		if b.open == "{" {
			out.Write(line(b.names[i]))
			out.WriteString(": ")
		}
		v.write(out, inner)
	}
	if len(b.values) > 0 {
		out.WriteString("\n" + indent)
	}
	out.WriteString(b.close)
}
