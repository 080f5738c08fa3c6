package payload

import (
	"go/types"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/pawlgo/pawl/internal/gen/shape"
)

// tagKey finds the keys of a struct tag, wherever they end.
var tagKey = regexp.MustCompile(`([^\s":\x60]+)\s*:\s*"`)

// redact reads the task tag of a field: whether it is not to be shown to people.
// A spelling that would hide nothing is an error, since nobody would notice.
func (c *Checker) redact(text string, at place) bool {
	value, ok := reflect.StructTag(text).Lookup(shape.RedactKey)
	if ok {
		if value != shape.RedactValue {
			c.errorf(at, "task:%q hides nothing: the one value that the tag has is task:\"redact\"", value)
		}
		return value == shape.RedactValue
	}
	for _, m := range tagKey.FindAllStringSubmatch(text, -1) {
		if key := m[1]; strings.EqualFold(strings.TrimSuffix(strings.ToLower(key), "s"), shape.RedactKey) {
			c.errorf(at, "its tag `%s` hides nothing: write `task:\"redact\"`", text)
			break
		}
	}
	return false
}

// redactsInVain refuses tags inside of a type that encodes itself: where a field of
// it comes to be in what its methods write is not known.
func (c *Checker) redactsInVain(t types.Type, p place) {
	s, ok := t.Underlying().(*types.Struct)
	if !ok {
		return
	}
	for i := range s.NumFields() {
		if c.redact(s.Tag(i), p.at(c, s.Field(i))) {
			c.errorf(p.at(c, s.Field(i)), "task:\"redact\" has no effect in %s, which encodes itself: tag the fields of that type", c.TypeName(t))
		}
	}
}

// Redacted returns the paths of the members of a payload that are not to be shown,
// as [shape.Redacted] does.
func (c *Checker) Redacted(args types.Type) [][]string { return shape.Redacted(args) }

// Hidden reports whether a member of a payload is not to be shown as a whole.
func Hidden(paths [][]string, member string) bool {
	return slices.ContainsFunc(paths, func(p []string) bool { return slices.Equal(p, []string{member}) })
}
