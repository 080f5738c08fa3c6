package campaign

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// A declaration is one random task with all that its payload is made of, in
// files of its own, whose names begin with its own.
type declaration struct {
	name  string // of the task
	files map[string]string
	// payload is the payload as its package spells it.
	payload string
	// faults are the reasons to refuse it. Without any it has to be accepted.
	faults []string
	// hides says that a field of the payload hides another.
	hides bool
	// transactional says that the handler gets a transaction.
	transactional bool
}

// faults are the mistakes that declarations have, at most one each.
var faults = []string{
	"a payload without a name",
	"a payload that is not exported",
	"a payload that is not declared",
	"an unexported field",
	"two fields of one JSON name",
	"two JSON names that differ by letter case",
	"an impossible tag",
	"an embedded type that is not stored",
	"an embedded marshaler",
	"two embedded structs with one field",
	"a key that encoding/json does not read as it writes",
	"a type that encoding/json refuses",
	"an interface",
	"a type that is not decoded",
	"a foreign type with a hidden field",
	"an undefined type",
	"a blank line below the directives",
	"a directive in a comment block",
	"a field beside the task",
	"a task by pointer",
	"a task with a name",
	"a task that is no struct",
	"a task that is an alias",
	"no queue",
	"a queue that is none",
	"a directive twice",
	"a directive that does not exist",
	"a lookalike",
	"an impossible value",
	"a field that does not exist",
	"a comment behind",
	"a directive that belongs to nothing",
}

// newDeclaration makes declaration n of a seed. It is the same whatever else is
// made.
func newDeclaration(seed, n uint64) *declaration {
	w := &writer{
		Rand: rand.New(rand.NewPCG(seed, n)), id: fmt.Sprintf("D%04d", n),
	}
	w.d = &declaration{name: w.id, files: map[string]string{}}
	if w.chance(45) {
		w.intended = pick(w, faults...)
	}
	w.payload()
	w.task()
	w.layout()
	return w.d
}

// writer writes one declaration.
type writer struct {
	*rand.Rand
	d      *declaration
	id     string
	names  int      // how many were given out
	types  []string // declarations beside the task, without the keyword
	decl   string   // the comment and the declaration of the task
	code   string   // what uses generated names
	fields []string // of the payload, for directives
	tenant string   // the one that names the organization, if any
	// intended is the fault to make where there is an opportunity, or nothing.
	intended string
}

func (w *writer) chance(percent int) bool { return w.IntN(100) < percent }

func pick[T any](w *writer, all ...T) T { return all[w.IntN(len(all))] }

// name returns a name that nothing else of the declaration has, in any case.
func (w *writer) name(stem string) string {
	w.names++
	return fmt.Sprintf("%s%d", stem, w.names)
}

func (w *writer) typeName() string { return w.name(w.id + "T") }

// fault reports whether to make this fault here.
func (w *writer) fault(what string) bool {
	if w.intended != what || w.chance(30) {
		return false
	}
	w.intended = ""
	w.d.faults = append(w.d.faults, what)
	return true
}

// payload writes the payload type.
func (w *writer) payload() {
	args := w.id + "Args"
	w.d.payload = args
	switch w.IntN(12) {
	case 0:
		w.d.payload = pick(w, "lib.Args", "lib.Trace", "lib.Names", "lib.Twice[int]", "lib.Pair[lib.Tag, *lib.Matrix]", "lib.Partial")
	case 1:
		w.declare(args + " " + pick(w, "[]", "map[string]") + w.element(2, false))
	case 2:
		w.declare(args+" = "+w.id+"Meant", w.id+"Meant "+w.structure(3, true, true))
	case 3:
		param := w.generic(args, 3)
		w.d.payload = args + "[" + w.argument(param) + "]"
	default:
		w.declare(args + " " + w.structure(3, true, true))
	}
	switch {
	case w.fault("a payload without a name"):
		w.d.payload = pick(w, "*", "[]") + w.d.payload
	case w.fault("a payload that is not exported"):
		w.declare("x" + args + " struct{ A int }")
		w.d.payload = "x" + args
	case w.fault("a payload that is not declared"):
		w.d.payload = args + "Missing"
	}
}

func (w *writer) declare(specs ...string) { w.types = append(w.types, specs...) }

// argument returns a type argument that generated code can spell.
func (w *writer) argument(comparable bool) string {
	if comparable {
		return pick(w, "string", "int8", "uint64")
	}
	name := w.typeName()
	w.declare(name + " " + w.structure(2, false, false))
	return pick(w, "", "*", "[]", "map[int]", "[2]") + name
}

// generic declares a generic struct, and reports whether its parameter has to be
// the key of a map.
func (w *writer) generic(name string, depth int) (key bool) {
	key = w.chance(30)
	var fields []string
	constraint := "any"
	if key {
		constraint = pick(w, "comparable", "~string | ~int8 | ~uint64")
		fields = append(fields, w.name("Map")+" map[T]bool")
	} else {
		fields = append(fields, w.name("Map")+" map[string]T")
	}
	for range 1 + w.IntN(3) {
		fields = append(fields, w.name("Gen")+" "+pick(w, "", "*", "[]", "[2]", "[][]")+"T")
	}
	fields = append(fields, w.field(depth-1, false))
	w.declare(fmt.Sprintf("%s[T %s] struct {\n\t%s\n}", name, constraint, strings.Join(fields, "\n\t")))
	return key
}

// structure returns a struct type. For a payload it remembers the fields that
// directives may name. Where it is not addressable, encoding/json cannot call the
// methods of pointers.
func (w *writer) structure(depth int, payload, addressable bool) string {
	var fields []string
	if payload && w.chance(40) {
		w.tenant = w.name("Tenant")
		fields = append(fields, w.tenant+" "+pick(w, "string", "int32", "uint64", "uuid.UUID", "lib.Title", "lib.Tag"))
	}
	for range w.IntN(3 + depth) {
		before := w.names
		field := w.field(depth-1, addressable)
		if payload && strings.HasPrefix(field, "F") && !strings.Contains(field, `"-"`) {
			if name, _, _ := strings.Cut(field, " "); !strings.HasSuffix(name, ",") && w.names > before {
				w.fields = append(w.fields, name)
			}
		}
		fields = append(fields, field)
	}
	if payload {
		fields = append(fields, w.embedded(depth-1)...)
	}
	if payload || w.chance(10) {
		fields = append(fields, w.oddFields()...)
	}
	if len(fields) == 0 {
		return "struct{}"
	}
	w.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	return "struct {\n\t" + strings.Join(fields, pick(w, "\n\t", "\n\n\t", "\n\t// Next.\n\t", "\n\t/* next */ ")) + "\n}"
}

func (w *writer) field(depth int, addressable bool) string {
	switch {
	case w.chance(6):
		typ := w.element(depth, addressable)
		return w.name("F") + ", " + w.name("F") + " " + typ
	case w.chance(6):
		quoted := pick(w, "int", "*uint16", "float64", "bool", "lib.Level", "uintptr", "*bool")
		return w.name("F") + " " + quoted + " `json:\"" + pick(w, "", w.name("q")) + pick(w, ",string", ",omitempty,string", ",string,unknown") + "\"`"
	case w.chance(4):
		return w.name("F") + " " + pick(w, "chan int", "func() error", "any", "int") + " `json:\"-\"`"
	case w.chance(3):
		return w.name("Größe") + " " + w.element(depth, addressable)
	}
	return w.name("F") + " " + w.element(depth, addressable) + w.tag()
}

// tag returns a tag that encoding/json takes as it is meant.
func (w *writer) tag() string {
	name := w.name("n")
	return pick(w,
		"", "", "", " `json:\""+name+"\"`", " `json:\""+name+"\"`", " `json:\""+name+",omitempty\"`", " `json:\",omitempty\"`",
		" `json:\",omitzero\"`", " `json:\""+name+",omitempty,omitzero\"`", " \"json:\\\""+name+"\\\"\"",
		" `yaml:\"y\" json:\"ü."+name+"$\"`", " `yaml:\"y\"`", " `json:\"a b "+name+"\"`", " `json:\""+name+",inline\"`", " `json:\"\"`", " ``",
	)
}

// embedded returns embedded fields.
func (w *writer) embedded(depth int) []string {
	var fields []string
	if w.chance(15) {
		fields = append(fields, pick(w, "", "*")+pick(w, "lib.Base", "lib.Trace", "lib.Names", "lib.Optional[int]"))
	}
	if w.chance(15) {
		name := pick(w, w.typeName(), strings.ToLower(w.typeName())) // a struct that is not exported is stored as well
		w.declare(name + " struct {\n\t" + w.name("P") + " int\n\t" + w.field(depth, false) + "\n}")
		fields = append(fields, name)
	}
	if w.chance(8) {
		name := w.typeName()
		w.declare(name + " struct {\n\t" + w.name("P") + " int\n\t" + w.field(depth, false) + "\n}")
		fields = append(fields, "*"+name)
	}
	if w.chance(8) { // by a name of its own: a field like any other
		name := w.typeName()
		w.declare(name + " " + pick(w, "[]", "map[string]", "[1]") + w.element(depth, false))
		fields = append(fields, name+" `json:\""+w.name("e")+"\"`")
	}
	if w.chance(5) {
		name := w.typeName()
		w.declare(name + " " + pick(w, "int", "string", "[]byte", "map[string]bool"))
		fields = append(fields, name)
	}
	if w.chance(4) {
		name, alias := w.typeName(), w.typeName()
		w.declare(name+" struct{ "+w.name("P")+" *int }", alias+" = "+name)
		fields = append(fields, alias)
	}
	if w.chance(4) {
		name, hidden := w.typeName(), w.name("Hide")
		w.declare(name + " struct{ " + hidden + ", " + w.name("P") + " int }")
		fields = append(fields, name, hidden+" string")
		w.d.hides = true
	}
	return fields
}

// oddFields returns fields that are never stored, or should not be there.
func (w *writer) oddFields() []string {
	var fields []string
	if w.chance(8) {
		fields = append(fields, "_ int")
	}
	if w.chance(8) {
		fields = append(fields, w.name("x")+" func() `json:\"-\"`")
	}
	name, other := w.name("F"), w.name("F")
	switch {
	case w.fault("an unexported field"):
		fields = append(fields, w.name("x")+" int"+pick(w, "", " `json:\"x\"`", " `yaml:\"-\"`"))
	case w.fault("two fields of one JSON name"):
		fields = append(fields, name+" int `json:\"same\"`", other+" int `json:\"same\"`")
	case w.fault("two JSON names that differ by letter case"):
		fields = append(fields, name+" int `json:\"same\"`", other+" int `json:\"Same,omitempty\"`")
	case w.fault("an impossible tag"):
		fields = append(fields, name+" "+pick(w,
			"int `json:\"-,\"`", "string `json:\",string\"`", "[]int `json:\",string\"`", "**int `json:\",string\"`", "int `json:\"a\\\\b\"`",
			"int `json: \"a\"`", "int `json:a`", "int `json:\"a'b\"`", "lib.Tag `json:\",string\"`", "int `json:\"a`"))
	case w.fault("an embedded type that is not stored"):
		hidden := strings.ToLower(w.typeName())
		pointer := w.chance(50)
		if pointer {
			w.declare(hidden + " struct{ " + w.name("P") + " int }")
			fields = append(fields, "*"+hidden)
		} else {
			w.declare(hidden + " " + pick(w, "int", "[]string", "map[string]int"))
			fields = append(fields, hidden)
		}
	case w.fault("an embedded marshaler"):
		fields = append(fields, pick(w, "", "*")+pick(w, "time.Time", "lib.Money", "lib.Temperature", "lib.Tag"), name+" int")
	case w.fault("two embedded structs with one field"):
		a, b, both := w.typeName(), w.typeName(), w.name("Both")
		w.declare(a+" struct{ "+both+" int }", b+" struct{ "+both+" int }")
		fields = append(fields, a, b)
	}
	return fields
}

// element returns a type for a field, an element or a key's value.
func (w *writer) element(depth int, addressable bool) string {
	if bad := w.badElement(addressable); bad != "" {
		return bad
	}
	if depth <= 0 || w.chance(25) {
		return w.scalar()
	}
	switch w.IntN(14) {
	case 0, 1:
		return "[]" + w.element(depth-1, true)
	case 2:
		return "*" + w.element(depth-1, true)
	case 3, 4:
		return "map[" + w.key() + "]" + w.element(depth-1, false)
	case 5:
		return fmt.Sprintf("[%d]", w.IntN(3)) + w.element(depth-1, addressable)
	case 6, 7:
		name := w.typeName()
		w.declare(name + " " + w.structure(depth-1, false, addressable))
		return name
	case 8:
		return w.structure(depth-1, false, addressable)
	case 9:
		name := w.typeName()
		w.declare(name + " = " + w.element(depth-1, addressable))
		return name
	case 10:
		name := w.typeName()
		if w.generic(name, depth) {
			return name + "[" + pick(w, "string", "int8", "uint64") + "]"
		}
		return name + "[" + w.element(depth-1, false) + "]"
	case 11: // recursive; what it holds is reached through a map as well
		name := w.typeName()
		w.declare(fmt.Sprintf("%s struct {\n\t%s *%s\n\t%s []%s\n\t%s map[string]%s\n\t%s\n}",
			name, w.name("F"), name, w.name("F"), name, w.name("F"), name, w.field(depth-1, false)))
		return name
	case 12:
		return pick(w, "lib.Args", "lib.Trace", "lib.Names", "lib.Twice[int]", "lib.Optional[lib.Base]", "lib.Pair[lib.Title, *lib.Matrix]", "lib.Partial")
	}
	name := w.typeName()
	w.declare(name + " " + pick(w, "[]", "map[string]", "[2]") + w.element(depth-1, false))
	return name
}

func (w *writer) scalar() string {
	if w.chance(15) {
		name := w.typeName()
		w.declare(name + " " + pick(w, "", "= ") + pick(w, "int", "string", "float32", "uint8", "bool", "[]byte", "time.Duration", "lib.Level"))
		return name
	}
	typ := pick(w,
		"bool", "int", "int8", "int16", "int32", "int64", "uint", "uint8", "uint16", "uint32", "uint64", "uintptr", "float32", "float64",
		"string", "string", "string", "byte", "rune", "[]byte", "[4]byte", "[]rune", "struct{}", "*string",
		"time.Time", "time.Duration", "*time.Time", "uuid.UUID", "json.RawMessage", "json.Number", "*big.Int", "netip.Addr", "netip.Prefix", "net.IP",
		"sql.NullString", "lib.Money", "*lib.Temperature", "lib.Tag", "lib.Grade", "lib.Code", "lib.Level", "lib.Matrix",
	)
	return typ
}

func (w *writer) key() string {
	if w.fault("a key that encoding/json does not read as it writes") {
		return pick(w, "bool", "float64", "any", "struct{ A int }", "[2]int", "*string", "lib.Money", "lib.Code", "lib.Digits")
	}
	typ := pick(w, "string", "string", "int", "int8", "uint64", "rune", "uintptr", "uuid.UUID", "netip.Addr", "time.Time", "json.Number",
		"lib.Tag", "lib.Grade", "lib.Title", "lib.Level", "time.Duration")
	return typ
}

// badElement returns a type that cannot be there, or nothing.
func (w *writer) badElement(addressable bool) string {
	switch {
	case w.fault("a type that encoding/json refuses"):
		return pick(w, "chan int", "func()", "complex128", "<-chan string", "complex64")
	case w.fault("an interface"):
		return pick(w, "any", "error", "fmt.Stringer", "interface{ M() }")
	case w.fault("a type that is not decoded"):
		return pick(w, "lib.OneWay", "lib.Digits", "*lib.OneWay")
	case w.fault("a foreign type with a hidden field"):
		return pick(w, "lib.Hidden", "sync.Mutex", "*lib.Hidden")
	case w.fault("an undefined type"):
		return pick(w, "Undefined"+w.id, "lib.Undefined")
	case !addressable:
	case w.chance(3):
		return pick(w, "lib.Temperature", "big.Int")
	}
	return ""
}

// used returns the imports that text refers to.
func used(text string) []string {
	var paths []string
	for qualifier, path := range importPaths {
		if refers(text, qualifier) {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

var importPaths = map[string]string{
	"fmt": "fmt", "sync": "sync", "time": "time", "json": "encoding/json", "big": "math/big", "netip": "net/netip", "net": "net",
	"sql": "database/sql", "uuid": "github.com/google/uuid", "lib": modulePath + "/lib",
}

func refers(text, qualifier string) bool {
	for rest := text; ; {
		at := strings.Index(rest, qualifier+".")
		if at < 0 {
			return false
		}
		if at == 0 || !strings.ContainsAny(rest[at-1:at], "abcdefghijklmnopqrstuvwxyz.") {
			return true
		}
		rest = rest[at+1:]
	}
}
