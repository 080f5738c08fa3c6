package shape

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"testing"

	"github.com/stretchr/testify/require"
)

const memberSource = `package p

import "time"

type Args struct {
	Inner
	Named ` + "`json:\"named\"`" + `
	Hidden
	A       int     ` + "`json:\"a\"`" + `
	Left    string  ` + "`json:\"-\"`" + `
	Nearer  string  ` + "`json:\"far\"`" + `
	Share   float32 ` + "`json:\",omitempty,string\"`" + `
}

type Inner struct{ Promoted uint8 ` + "`json:\"promoted\"`" + ` }
type Named struct{ Below int }
type Hidden struct{ Far int ` + "`json:\"far\"`" + ` }
type Time struct{ time.Time }
type List []int
`

func memberPackage(t *testing.T) *types.Package {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "p.go", memberSource, 0)
	require.NoError(t, err)
	pkg, err := (&types.Config{Importer: importer.ForCompiler(fset, "source", nil)}).Check("p", fset, []*ast.File{file}, nil)
	require.NoError(t, err)
	return pkg
}

func TestMember(t *testing.T) {
	t.Parallel()
	pkg := memberPackage(t)
	args := pkg.Scope().Lookup("Args").Type()
	for name, want := range map[string]string{
		"A": "a", "Promoted": "promoted", "Nearer": "far", "Share": "Share",
		"Below": "", // in an object of its own
		"Left":  "", // left out
		"Far":   "", // another field has its name
	} {
		_, index, _ := types.LookupFieldOrMethod(args, true, pkg, name)
		got, ok := Member(args, index)
		require.Equal(t, want != "", ok, name)
		require.Equal(t, want, got, name)
	}
	for _, name := range []string{"Time", "List"} {
		_, ok := Member(pkg.Scope().Lookup(name).Type(), []int{0})
		require.False(t, ok, name)
	}
}

func TestMemberText(t *testing.T) {
	t.Parallel()
	pkg := memberPackage(t)
	s, err := FromType(pkg.Scope().Lookup("Args").Type(), pkg, nil)
	require.NoError(t, err)
	for name, want := range map[string]string{
		"promoted": `[{"name":"promoted","type":{"kind":"int64"}}]`,
		"a":        `[{"name":"a","type":{"kind":"int64"}}]`,
		"far":      `[{"name":"far","type":{"kind":"string"}}]`,
		"Share":    `[{"name":"Share","type":{"kind":"float32"},"omitempty":true,"quoted":true}]`,
		"named":    `[{"name":"named","type":{"kind":"struct","struct":1}}],[{"name":"Below","type":{"kind":"int"}}]`,
	} {
		require.Equal(t, `{"root":{"kind":"struct","struct":0},"structs":[`+want+`]}`, string(s.Member(name)), name)
	}
	require.Nil(t, s.Member("Left"))
}
