package rules

import (
	"fmt"
	"strings"
)

// Page returns the reference page in Markdown.
func Page() string {
	var b strings.Builder
	b.WriteString(`<!-- Made from the table in internal/gen/rules: go test ./internal/gen/rules -run TestPage -update -->
# When a payload type changes

Jobs outlive the code that enqueued them. When the payload type of a task changes, ` + "`taskgen`" + ` compares it with every version
that may still be in the database, and this page lists what it finds.

Each row has the id that messages show and ` + "`//task:accept`" + ` takes, and what becomes of the worst value in both directions: an old
payload that meets new code, and a new payload that meets old code, as in a rolling deploy or after a rollback.

- **kept**: every field that both codes know arrives as it was.
- **lost**: there is no error, but a value is wrong or gone.
- **error**: the payload cannot be decoded, and the job ends as a dead letter.

A path leads to the change by JSON names: ` + "`retry.max`, `items[].n`, `by_key{}`" + ` for the values of a map and ` + "`by_key{key}`" + ` for its keys.
The strictest finding decides what the change costs.
`)
	section := func(title, text string, keep func(Rule) bool) {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| Rule | What changed | Old → new code | New → old code | Why | What to do |\n|---|---|---|---|---|---|\n", title, text)
		for _, r := range table {
			if keep(r) {
				fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", r.ID, cell(r.Change), r.Back, r.Forward, cell(r.Reason), cell(r.Remedy))
			}
		}
	}
	payload := func(v Verdict) func(Rule) bool {
		return func(r Rule) bool { return r.Verdict == v && !r.Declaration }
	}
	section("Compatible", "The version stays: old and new code read each other's payloads.", payload(Compatible))
	section("Backward only", "A new version, without an upgrader: new code reads old payloads as they are, and old workers do not claim new ones.", payload(BackwardOnly))
	section("Breaking", "A new version, and an upgrader from the frozen old type, without which the package does not compile.", payload(Breaking))
	section("Changes of the declaration", "Not of the payload, and as strict as a breaking change.", func(r Rule) bool { return r.Declaration })

	notes := func(title, text, column string, all []Note) {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| %s | Why |\n|---|---|\n", title, text, column)
		for _, n := range all {
			fmt.Fprintf(&b, "| %s | %s |\n", cell(n.Change), cell(n.Reason))
		}
	}
	notes("What is no change", "The wire form is the same, and the version stays.", "What changed", unseen)
	notes("What a payload may not hold", "These are refused where they are declared, at the field's position.", "Declaration", refused)
	return b.String()
}

// cell writes a text into a table, where a bar would end it.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
