package render_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Code and payloads that do not belong together do not compile; each beside a
// twin that does.
func TestWhatDoesNotCompile(t *testing.T) {
	t.Parallel()
	c := newCompiler(t, evolvedDir)
	_, problems := c.check(t, nil)
	require.Empty(t, problems)

	const file = "evolved.go"
	for name, tt := range map[string]struct {
		old, right, wrong string
		want              string // of the compiler's message
	}{
		"missing upgrader": {
			"func UpgradeDeliverV1(old DeliverArgsV1)", "func UpgradeDeliverV1( /* first last */ old DeliverArgsV1)", "func UpgradeDeliverV2(old DeliverArgsV1)",
			"undefined: UpgradeDeliverV1",
		},
		"upgrader to another version": {
			"(old DeliverArgsV3) (DeliverArgsV4, error) {\n\treturn DeliverArgsV4{Names: []string{old.First, old.Last}, Count: 2}, nil",
			"(old DeliverArgsV3) (DeliverArgsV4, error) {\n\treturn DeliverArgsV4{}, nil",
			"(old DeliverArgsV3) (DeliverArgsV5, error) {\n\treturn DeliverArgsV5{}, nil",
			"cannot use UpgradeDeliverV3 (value of type func(old DeliverArgsV3) (DeliverArgsV5, error)) as func(DeliverArgsV3) (DeliverArgsV4, error) value",
		},
		"upgrader from another version": {
			"func UpgradeRetiredV2(old RetiredArgsV2)", "type v2 = RetiredArgsV2\n\nfunc UpgradeRetiredV2(old v2)", "func UpgradeRetiredV2(old struct {\n\tSeconds int `json:\"seconds\"`\n})",
			"cannot use UpgradeRetiredV2",
		},
		"upgrader without an error": {
			"(old TextArgsV1) (TextArgsV2, error) {\n\treturn Batch[string]{Items: strings.Fields(string(old))}, nil",
			"(old TextArgsV1) (_ TextArgsV2, err error) {\n\treturn",
			"(old TextArgsV1) (_ TextArgsV2) {\n\treturn",
			"cannot use UpgradeTextV1",
		},
		"changed field":    {"Names []string `json:\"names\"`", "// Names are two.\n\tNames []string `json:\"names\"`", "Names [2]string `json:\"names\"`", "cannot use runGoGenerate() (value of struct type DeliverArgs)"},
		"new field":        {"type LostArgs struct {", "type LostArgs struct {\n", "type LostArgs struct {\n\tNew int", "cannot use runGoGenerate()"},
		"lost field":       {"\tTries *Tries   `json:\"tries,omitempty\"`", "\tTries *Tries `json:\"tries,omitempty\"`", "", "cannot use runGoGenerate()"},
		"edited tag":       {"`json:\"count\"`", "\"json:\\\"count\\\"\"", "`json:\"count,omitempty\"`", "cannot use runGoGenerate() (value of struct type DeliverArgs)"},
		"renamed field":    {"\tSizes map[string]int", "\tSizes map[string]int", "\tSize map[string]int", "cannot use runGoGenerate() (value of struct type LostArgs)"},
		"nested field":     {"\tMax int `json:\"max\"`", "\tMax int /* tries */ `json:\"max\"`", "\tMax uint `json:\"max\"`", "cannot use runGoGenerate() (value of struct type Tries)"},
		"nested tag":       {"\tMax int `json:\"max\"`", "\tMax int     `json:\"max\"`", "\tMax int `json:\"Max\"`", "cannot use runGoGenerate() (value of struct type Tries)"},
		"generic field":    {"Items []T `json:\"items\"`", "Items []T  `json:\"items\"`", "Items [][]T `json:\"items\"`", "cannot use runGoGenerate() (value of struct type Batch[string])"},
		"kind of a scalar": {"type Level string", "type Level (string)", "type Level []byte", "cannot convert runGoGenerate (variable of type *Level) to type *string"},
		"element":          {"type Items []library.Pair[Level, []Tries]", "type Items = ItemsX\n\ntype ItemsX []library.Pair[Level, []Tries]", "type Items []library.Pair[string, []Tries]", "cannot use runGoGenerate() (value of slice type Items)"},
		"argument of a type that encodes itself": {
			"Every time.Duration `json:\"every\"`", "Every time.Duration   `json:\"every\"`", "Every time.Duration `json:\"all\"`",
			"cannot use runGoGenerate() (value of struct type RetiredArgs)",
		},
		"marshaler": {
			"// Tries is nested.", "func (Tries) String() string { return \"\" }\n\n", "func (Tries) MarshalJSON() ([]byte, error) { return nil, nil }\n\n",
			"ambiguous selector runGoGenerate.MarshalJSON",
		},
		"marshaler of a pointer": {
			"// Tries is nested.", "func (*Tries) marshalText() ([]byte, error) { return nil, nil }\n\n", "func (*Tries) MarshalText() ([]byte, error) { return nil, nil }\n\n",
			"ambiguous selector runGoGenerate.MarshalText",
		},
		"unmarshaler of a scalar": {
			"// Level is a named scalar.", "func (l *Level) Set(text string) error { *l = Level(text); return nil }\n\n", "func (l *Level) UnmarshalText(text []byte) error { *l = Level(text); return nil }\n\n",
			"ambiguous selector runGoGenerate.UnmarshalText",
		},
		"unmarshaler of a generic type": {
			"// Batch is generic.", "func (b *Batch[T]) Unmarshal([]byte) error { return nil }\n\n", "func (b *Batch[T]) UnmarshalJSON([]byte) error { return nil }\n\n",
			"ambiguous selector runGoGenerate.UnmarshalJSON",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name != "element" { // which moves the methods of a type
				_, problems := c.check(t, c.edit(t, file, tt.old, tt.right))
				require.Empty(t, problems)
			}
			_, problems := c.check(t, c.edit(t, file, tt.old, tt.wrong))
			require.NotEmpty(t, problems)
			require.Contains(t, strings.Join(problems, "\n"), tt.want)
		})
	}
}

// A type that is no more than a mark of another may change.
func TestMarksAreNotWatched(t *testing.T) {
	t.Parallel()
	c := newCompiler(t, "../golden/fleet")
	_, problems := c.check(t, c.edit(t, "fleet.go", "type Invoice struct{ Cents int64 }", "type Invoice struct{ Euros int64 }"))
	require.Empty(t, problems)
}
