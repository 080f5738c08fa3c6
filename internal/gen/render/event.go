package render

import (
	"fmt"

	"github.com/dave/jennifer/jen"
	"github.com/pawlgo/pawl/internal/gen/lock"
)

// event writes the value that everything else of an event refers to.
func event(file *jen.File, t *Task) {
	entries := []jen.Code{
		entry("Name", jen.Id(t.constant())),
		entry("Aggregate", jen.Lit(t.Policy.Aggregate)),
		policy(t),
	}
	if t.Policy.Skip {
		entries = append(entries, entry("Skip", jen.True()))
	}
	entries = append(entries, entry("Version", jen.Lit(t.current())), entry("Capabilities", capabilities(t)))
	if t.Policy.Organization != nil {
		entries = append(entries, entry("Organization", organization(t)))
		if t.OrganizationField != "" {
			entries = append(entries, entry("OrganizationField", jen.Lit(t.OrganizationField)))
		}
	}
	entries = append(entries, entry("Shape", text(lock.Spell(t.Plan.Current.Shape))))
	entries = append(entries, redact(t)...)
	entries = append(entries, entry("Decode", jen.Id("decode"+t.Name)))
	file.Var().Id(t.variable()).Op("=").Add(
		composite(jen.Qual(taskimplPath, "Event").Types(typeExpr(t.Args)), true, entries...))
}

func publish(file *jen.File, t *Task) {
	file.Add(comment(fmt.Sprintf("Publish%s stores one event [%s] of %s in tx. It is projected once tx commits; rolled back, it never was. "+
		"Until then nobody else publishes for that %s.", t.Name, t.Name, article(t.Policy.Aggregate), t.Policy.Aggregate), policyDoc(t)...))
	file.Func().Id("Publish"+t.Name).Params(
		jen.Id("ctx").Qual(contextPath, "Context"),
		jen.Id("tx").Qual(taskPath, "Tx"),
		jen.Id("aggregateID").String(),
		jen.Id("payload").Add(typeExpr(t.Args)),
		jen.Id("opts").Op("...").Qual(taskPath, "PublishOption"),
	).Params(jen.Qual(taskPath, "Receipt"), jen.Error()).Block(
		jen.Return(jen.Qual(taskimplPath, "Publish").Call(
			jen.Id("ctx"), jen.Id("tx"), jen.Op("&").Id(t.variable()), jen.Id("aggregateID"), jen.Id("payload"), jen.Id("opts"))))
}

// projections writes the interface of what is done about each event.
func projections(file *jen.File, events []*Task) {
	var methods []jen.Code
	for i, t := range events {
		if i > 0 {
			methods = append(methods, jen.Line())
		}
		doc := fmt.Sprintf("Project%s projects one event [%s] in tx, which is committed together with the mark that this is done.", t.Name, t.Name)
		methods = append(methods, comment(doc, policyDoc(t)...), jen.Id("Project"+t.Name).Params(
			jen.Id("ctx").Qual(contextPath, "Context"),
			jen.Id("tx").Qual(pgxPath, "Tx"),
			jen.Id("fact").Op("*").Qual(taskPath, "Fact").Types(typeExpr(t.Args)),
		).Error())
	}
	file.Add(comment("Projections says what is to be done about every event of this package."))
	file.Type().Id("Projections").Interface(methods...)
}

// eventTable writes the function that connects the events.
func eventTable(file *jen.File, events []*Task) {
	var all []jen.Code
	for _, t := range events {
		all = append(all, rows(t)...)
	}
	file.Add(comment("Events connects every event of this package to its projection."))
	file.Func().Id("Events").Params(jen.Id("p").Id("Projections")).Qual(taskPath, "EventTable").
		Block(jen.Return(jen.Qual(taskimplPath, "EventTable").Custom(
			jen.Options{Open: "(", Close: ")", Separator: ",", Multi: true}, all...)))
}
