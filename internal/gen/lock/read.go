package lock

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/pawlgo/pawl/internal/gen/rules"
	"github.com/pawlgo/pawl/internal/gen/shape"
)

// Error says why a lock cannot be read.
type Error struct {
	Line int // 0 where the trouble has no line
	Msg  string
}

func (e *Error) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("line %d: %s", e.Line, e.Msg)
	}
	return e.Msg
}

// The JSON of the file.
type (
	fileLock struct {
		Format int                  `json:"format"`
		Codec  string               `json:"codec"`
		Kinds  map[string]*fileKind `json:"kinds"`
	}
	fileKind struct {
		Task         string                    `json:"task"`
		Aggregate    string                    `json:"aggregate"`
		AliasOf      string                    `json:"alias_of"`
		Idempotency  []IdentityField           `json:"idempotency"`
		Organization *IdentityField            `json:"organization"`
		Order        []IdentityField           `json:"order"`
		Accepted     []Acceptance              `json:"accepted"`
		Reserved     map[string]rules.Reserved `json:"reserved"`
		Retired      map[int]Retirement        `json:"retired"`
		Versions     map[int]*fileVersion      `json:"versions"`
	}
	fileVersion struct {
		Base     Base                     `json:"base"`
		Upgrader bool                     `json:"upgrader"`
		Root     *shape.Node              `json:"root"`
		Structs  map[string][]shape.Field `json:"structs"`
	}
)

// Parse reads a lock. Nil stands for a file that is not there, and so has
// promised nothing. Its error is an [*Error]: a lock is refused that is empty, has
// conflict markers, comes from a newer taskgen, or says anything that this one
// would not understand or not write.
func Parse(src []byte) (*Lock, error) {
	if src == nil {
		return &Lock{}, nil
	}
	// Taskgen writes no such file: a full disk or a merge has lost what it said, and
	// to start from version 1 would strand every job that is stored.
	if len(bytes.TrimSpace(src)) == 0 {
		return nil, &Error{Msg: "it is empty"}
	}
	if line := conflictLine(src); line > 0 {
		return nil, &Error{line, "it has conflict markers"}
	}
	var header struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(src, &header); err != nil {
		return nil, located(src, err)
	}
	switch {
	case header.Format > Format:
		return nil, &Error{Msg: fmt.Sprintf("it has the format %d, and this taskgen knows %d: it was written by a newer one, so update github.com/pawlgo/pawl", header.Format, Format)}
	case header.Format < 1:
		return nil, &Error{Msg: "it names no format, so taskgen did not write it"}
	}
	if err := duplicates(src); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(src))
	d.DisallowUnknownFields()
	var file fileLock
	if err := d.Decode(&file); err != nil {
		return nil, located(src, err)
	}
	if file.Codec != Codec {
		return nil, &Error{Msg: fmt.Sprintf("its payloads are encoded with %q, and this taskgen knows %q alone (%s): restore what the lock said", file.Codec, Codec, rules.CodecChanged)}
	}
	return file.lock()
}

func (f *fileLock) lock() (*Lock, error) {
	l := &Lock{Kinds: map[string]*Kind{}}
	for name, k := range f.Kinds {
		if k == nil {
			return nil, &Error{Msg: "kind " + name + " is null"}
		}
		kind := &Kind{Task: k.Task, Aggregate: k.Aggregate, AliasOf: k.AliasOf, Versions: map[int]*Version{}, Retired: k.Retired, Reserved: k.Reserved, Accepted: k.Accepted}
		if len(k.Idempotency) > 0 {
			kind.Identity = &Identity{Fields: k.Idempotency, Organization: k.Organization}
		}
		if len(k.Order) > 0 {
			kind.Order = &Identity{Fields: k.Order}
		}
		l.Kinds[name] = kind
		for n, v := range k.Versions {
			if err := kind.add(n, v); err != nil {
				return nil, &Error{Msg: fmt.Sprintf("kind %s, version %d: %v", name, n, err)}
			}
		}
	}
	for name, k := range l.Kinds {
		if err := l.validate(k); err != nil {
			return nil, &Error{Msg: fmt.Sprintf("kind %s: %v", name, err)}
		}
	}
	return l, nil
}

func (k *Kind) add(n int, v *fileVersion) error {
	switch _, retired := k.Retired[n]; {
	case n < 1 || v == nil:
		return errors.New("there is no such version")
	case retired:
		return errors.New("it is live and retired at once")
	case (v.Root == nil) != (k.AliasOf != ""):
		return errors.New("an alias has no shapes, and everything else has")
	}
	version := &Version{Base: v.Base, Upgrader: v.Upgrader}
	k.Versions[n] = version
	if v.Root == nil {
		return nil
	}
	version.Shape = &shape.Shape{Root: *v.Root}
	for name, fields := range v.Structs {
		if version.Shape.Structs == nil {
			version.Shape.Structs = map[string]shape.Object{}
		}
		version.Shape.Structs[name] = shape.Object{Fields: fields}
	}
	return version.Shape.Validate()
}

// validate checks what depends on other kinds.
func (l *Lock) validate(k *Kind) error {
	if k.AliasOf != "" && len(k.Versions) > 0 {
		of := l.Kinds[k.AliasOf]
		if of == nil || of.AliasOf != "" {
			return fmt.Errorf("it is an alias of %s, which is no kind", k.AliasOf)
		}
		for n, v := range k.Versions {
			if of.Versions[n] == nil || v.Base.IsZero() {
				return fmt.Errorf("version %d has no shape in %s, or no base", n, k.AliasOf)
			}
		}
	}
	if k.AliasOf == "" && k.Task == "" && len(k.Versions) > 0 {
		return errors.New("it has live versions and no task")
	}
	return nil
}

// located finds the line of a JSON error.
func located(src []byte, err error) *Error {
	e := &Error{Msg: err.Error()}
	offset := int64(-1)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		offset = syntax.Offset
	} else if typed, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		offset = typed.Offset
	}
	if offset >= 0 {
		e.Line = 1 + bytes.Count(src[:min(int(offset), len(src))], []byte("\n"))
	}
	return e
}

// duplicates refuses an object with two members of one name, which a merge can
// make and a JSON decoder passes over.
func duplicates(src []byte) error {
	type level struct {
		seen map[string]bool // nil in a list
		key  bool            // a name comes next
	}
	var levels []*level
	d := json.NewDecoder(bytes.NewReader(src))
	for {
		token, err := d.Token()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return located(src, err)
		}
		var top *level
		if len(levels) > 0 {
			top = levels[len(levels)-1]
		}
		if delim, ok := token.(json.Delim); ok && (delim == '}' || delim == ']') {
			levels = levels[:len(levels)-1]
			continue
		}
		if top != nil && top.key {
			name := token.(string)
			if top.seen[name] {
				return &Error{1 + bytes.Count(src[:d.InputOffset()], []byte("\n")), fmt.Sprintf("%q is there twice", name)}
			}
			top.seen[name], top.key = true, false
			continue
		}
		if top != nil && top.seen != nil {
			top.key = true
		}
		switch token {
		case json.Delim('{'):
			levels = append(levels, &level{map[string]bool{}, true})
		case json.Delim('['):
			levels = append(levels, &level{})
		}
	}
}

// Conflicted reports whether src has the conflict markers of a merge.
func Conflicted(src []byte) bool { return conflictLine(src) > 0 }

// conflictLine returns the first line with a conflict marker, or 0. No line of a
// lock begins with such a sign.
func conflictLine(src []byte) int {
	n := 0
	for l := range bytes.Lines(src) {
		n++
		if marker(l) != 0 {
			return n
		}
	}
	return 0
}

func marker(l []byte) byte {
	for _, sign := range []byte("<|=>") {
		if bytes.HasPrefix(l, bytes.Repeat([]byte{sign}, 7)) {
			return sign
		}
	}
	return 0
}

// Sides returns what stands on either side of the conflicts in src.
func Sides(src []byte) (ours, theirs []byte) {
	at := byte(0)
	for l := range bytes.Lines(src) {
		if m := marker(l); m != 0 {
			at = m
			if m == '>' {
				at = 0
			}
			continue
		}
		if at == 0 || at == '<' {
			ours = append(ours, l...)
		}
		if at == 0 || at == '=' {
			theirs = append(theirs, l...)
		}
	}
	return ours, theirs
}

// Tombstones returns the versions that the command retire took out of use, by
// kind, in whatever can be read of src: both sides of a conflict count. They are
// all that a lock says of its own accord.
func Tombstones(src []byte) map[string][]int {
	found := map[string][]int{}
	ours, theirs := Sides(src)
	for _, side := range [][]byte{ours, theirs} {
		l, err := Parse(side)
		if err != nil {
			continue
		}
		for name, k := range l.Kinds {
			for n, how := range k.Retired {
				if how != Removed && !slices.Contains(found[name], n) {
					found[name] = append(found[name], n)
				}
			}
		}
	}
	return found
}
