package render

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"

	"github.com/dave/jennifer/jen"
	"github.com/pawlgo/pawl/internal/gen/evolve"
)

// older returns the live versions before the current one.
func (t *Task) older() []evolve.Version {
	if t.Plan == nil {
		return nil
	}
	return t.Plan.Older
}

// current returns the number of the version that an enqueue writes.
func (t *Task) current() int {
	if t.Plan == nil {
		return 1
	}
	return t.Plan.Current.Number
}

// after returns the number of the live version that follows the i-th older one.
func (t *Task) after(i int) int {
	if older := t.older(); i+1 < len(older) {
		return older[i+1].Number
	}
	return t.current()
}

// argsName names the payload type of a version.
func argsName(t *Task, version int) string { return argsPrefix(t) + strconv.Itoa(version) }

func argsPrefix(t *Task) string {
	if t.Policy.Event {
		return t.Name + "PayloadV"
	}
	return t.Name + "ArgsV"
}

// constant names the wire name of a declaration, variable what is made of it.
func (t *Task) constant() string {
	if t.Policy.Event {
		return "Event" + t.Name
	}
	return "Kind" + t.Name
}

func (t *Task) variable() string {
	if t.Policy.Event {
		return "event" + t.Name
	}
	return "kind" + t.Name
}

func upgraderName(t *Task, version int) string { return fmt.Sprintf("Upgrade%sV%d", t.Name, version) }

// capability is what a version's stored jobs carry.
func capability(base [32]byte) uint64 { return binary.BigEndian.Uint64(base[:8]) }

// capabilities writes the versions that the decode function takes.
func capabilities(t *Task) jen.Code {
	one := func(number int, id uint64) jen.Code {
		return composite(jen.Null(), false, entry("Version", jen.Lit(number)), entry("ID", hex(id)))
	}
	list := jen.Index().Qual(taskimplPath, "Capability")
	var all []jen.Code
	for _, v := range t.older() {
		all = append(all, one(v.Number, capability(v.Base)))
	}
	all = append(all, one(t.current(), capability(t.Plan.Current.Base)))
	return values(list, all)
}

// values puts entries on one line where there is one.
func values(typ *jen.Statement, entries []jen.Code) jen.Code {
	if len(entries) == 1 {
		return typ.Values(entries...)
	}
	return composite(typ, true, entries...)
}

func hex(id uint64) jen.Code { return jen.Op(fmt.Sprintf("0x%016x", id)) }

// rows writes the rows of a task: its own, and one for each of its old kinds.
func rows(t *Task) []jen.Code {
	row, aliasRow := "Row", "AliasRow"
	if t.Policy.Transactional {
		row, aliasRow = "TxRow", "TxAliasRow"
	}
	kind, handler := jen.Op("&").Id(t.variable()), jen.Id("h").Dot("Handle"+t.Name)
	if t.Policy.Event {
		row, aliasRow, handler = "EventRow", "EventAliasRow", jen.Id("p").Dot("Project"+t.Name)
	}
	all := []jen.Code{jen.Qual(taskimplPath, row).Call(kind, handler)}
	for _, a := range t.Aliases {
		var versions []jen.Code
		for _, v := range a.Versions {
			versions = append(versions, composite(jen.Null(), false,
				entry("Version", jen.Lit(v.Number)), entry("ID", hex(capability(v.Base))), entry("As", jen.Lit(v.As))))
		}
		alias := composite(jen.Qual(taskimplPath, "Alias"), true,
			entry("Kind", jen.Lit(a.Kind)),
			entry("Versions", values(jen.Index().Qual(taskimplPath, "AliasVersion"), versions)))
		all = append(all, jen.Qual(taskimplPath, aliasRow).Call(alias, kind.Clone(), handler.Clone()))
	}
	return all
}

// versions writes a name for the type of each live version, and what makes the
// compiler ask for the upgraders.
func versions(file *jen.File, t *Task, s *speller, packages packagesByPath) {
	for i, v := range t.older() {
		frozen(file, t, v, t.after(i), s, packages)
	}
	current := argsName(t, t.current())
	file.Add(comment(fmt.Sprintf("%s is version %d of the payload of [%s], the current one. Under this name an upgrader keeps its meaning when there is a newer one.",
		current, t.current(), t.Name)))
	file.Type().Id(current).Op("=").Add(typeExpr(t.Args))
	for i, v := range t.older() {
		if !v.Upgrader {
			continue
		}
		from, to, name := argsName(t, v.Number), argsName(t, t.after(i)), upgraderName(t, v.Number)
		file.Comment(fmt.Sprintf("// Version %d of [%s] does not decode as version %d. Where this does not compile,\n"+
			"// write in a file of your own:\n//\n//\tfunc %s(old %s) (%s, error)", v.Number, t.Name, t.after(i), name, from, to))
		file.Var().Id("_").Func().Params(jen.Id(from)).Params(jen.Id(to), jen.Error()).Op("=").Id(name)
	}
}

// decode writes the function that turns a stored payload into the current type.
func decode(file *jen.File, t *Task) {
	older := t.older()
	// Versions that begin at the same type are one case.
	var cases []jen.Code
	var numbers []jen.Code
	for i, v := range older {
		numbers = append(numbers, jen.Lit(v.Number))
		if v.Upgrader {
			cases = append(cases, jen.Case(numbers...).Block(chain(t, i)...))
			numbers = nil
		}
	}
	numbers = append(numbers, jen.Lit(t.current()))
	cases = append(cases, jen.Case(numbers...).Block(
		jen.Return(jen.Qual(taskimplPath, "As").Types(typeExpr(t.Args)).Call(jen.Id("raw")))))

	file.Add(comment(fmt.Sprintf("decode%s turns a stored payload into the current type.", t.Name)))
	file.Func().Id("decode"+t.Name).
		Params(jen.Id("version").Int(), jen.Id("raw").Index().Byte()).
		Params(typeExpr(t.Args), jen.Error()).
		Block(
			jen.Switch(jen.Id("version")).Block(cases...),
			jen.Var().Id("none").Add(typeExpr(t.Args)),
			jen.Return(jen.Id("none"), jen.Qual(taskimplPath, "UnknownVersion").Call(jen.Id(t.constant()), jen.Id("version"))),
		)
}

// localArgs names the variable that holds a payload on its way.
func localArgs(version int) string { return fmt.Sprintf("args%d", version) }

// chain writes the steps from the type of the i-th older version, which has an
// upgrader, to the current one. A version without an upgrader is passed over
// where one begins, and left through JSON where an upgrader ended in it.
func chain(t *Task, i int) []jen.Code {
	older := t.older()
	local := func(version int) *jen.Statement { return jen.Id(localArgs(version)) }
	var steps []jen.Code
	step := func(version int, value jen.Code) {
		steps = append(steps, jen.List(local(version), jen.Err()).Op(":=").Add(value))
	}
	step(older[i].Number, jen.Qual(taskimplPath, "As").Types(jen.Id(argsName(t, older[i].Number))).Call(jen.Id("raw")))
	for {
		from, to := older[i].Number, t.after(i)
		upgrade := jen.Qual(taskimplPath, "Upgrade").Call(jen.Lit(from), local(from), jen.Err(), jen.Id(upgraderName(t, from)))
		if i++; i == len(older) {
			return append(steps, jen.Return(upgrade))
		}
		step(to, upgrade)
		if older[i].Upgrader {
			continue
		}
		next := slices.IndexFunc(older[i:], func(v evolve.Version) bool { return v.Upgrader })
		if next < 0 {
			return append(steps, jen.Return(jen.Qual(taskimplPath, "Convert").Types(typeExpr(t.Args)).Call(local(to), jen.Err())))
		}
		i += next
		step(older[i].Number, jen.Qual(taskimplPath, "Convert").Types(jen.Id(argsName(t, older[i].Number))).Call(local(to), jen.Err()))
	}
}
