package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pawlgo/pawl/internal/rights"
	"github.com/pawlgo/pawl/internal/store"
)

// held is what a role may do with the objects that there are.
type held map[object][]string

// object is one of the schema. Names of functions and tables may be the same.
type object struct {
	class rights.Class
	name  string
}

func (o object) String() string {
	if o.class == rights.Function {
		return o.name + "()"
	}
	return o.name
}

// part is what a role has and lacks to play a part.
type part struct {
	role   rights.Role
	wanted int      // how many rights it has
	lacks  []string // of those, on objects that are there
	beyond []string // what the role has and the part does not
}

func (h held) compare(role rights.Role) part {
	p := part{role: role}
	wants := make(map[object][]string)
	for _, o := range rights.Objects() {
		at := object{o.Class, o.Name}
		if _, ok := h[at]; !ok {
			continue // of a newer schema
		}
		wants[at] = o.Rights(role)
		p.wanted += len(wants[at])
		for _, right := range wants[at] {
			if !rights.Covers(h[at], right) {
				p.lacks = append(p.lacks, fmt.Sprintf("%s on %v", right, at))
			}
		}
	}
	for at, has := range h {
		if at.class == rights.Schema {
			wants[at] = []string{"USAGE"}
		}
		for _, right := range has {
			if !rights.Covers(wants[at], right) {
				p.beyond = append(p.beyond, fmt.Sprintf("%s on %v", right, at))
			}
		}
	}
	slices.Sort(p.beyond)
	return p
}

// checkGrants says what the role is for, by what it may do: who looks is an
// operator more often than a worker. What it advises takes no right away from the
// role, as the statements of migrations.Grants do with those that are not the part's.
func (c *Client) checkGrants(ctx context.Context) []Check {
	var (
		role string
		rows []store.RightsRow
	)
	if err := c.read(ctx, "look at rights", func(r *store.Reading) (err error) {
		role, rows, err = r.Rights(ctx)
		return err
	}); err != nil {
		return []Check{broken("grants", err)}
	}
	return []Check{grantsCheck(role, rows)}
}

func grantsCheck(role string, rows []store.RightsRow) Check {
	check := Check{Name: "grants", Finding: FindingOK}
	h := make(held)
	var foreign []string
	owner := false
	for _, row := range rows {
		at := object{row.Class, row.Name}
		h[at] = row.Rights
		owner = owner || row.Class == rights.Schema && row.Owned
		if !row.Owned {
			foreign = append(foreign, at.String())
		}
	}
	if owner {
		check.Text = fmt.Sprintf("role %s owns the schema, or may act as who does: it may do everything", role)
		if len(foreign) > 0 {
			check.Finding, check.Do = FindingWarn, fmt.Sprintf("as a superuser: what taskctl grants --migrator %s prints", role)
			check.Text = fmt.Sprintf("role %s owns the schema, and of what is in it not %s", role, some(foreign))
		}
		return check
	}

	var (
		complete, extra []string // parts, and what none of those has
		near            part
		best            = -1.0
	)
	for _, one := range rights.Parts() {
		p := h.compare(one)
		if len(p.lacks) == 0 {
			if len(complete) == 0 {
				extra = p.beyond
			}
			extra = slices.DeleteFunc(extra, func(right string) bool { return !slices.Contains(p.beyond, right) })
			// A worker may do what a producer may, and an operator what a viewer may:
			// the smaller part has nothing that is beyond the other one.
			greater, within := map[rights.Role]rights.Role{rights.Producer: rights.Worker, rights.Viewer: rights.Operator}[one]
			if !within || !slices.Contains(complete, article(greater)) {
				complete = append(complete, article(one))
			}
			continue
		}
		if share := 1 - float64(len(p.lacks))/float64(p.wanted); share > best {
			best, near = share, p
		}
	}
	if len(complete) > 0 {
		check.Text = fmt.Sprintf("role %s may do all that %s does", role, strings.Join(complete, " and "))
		if len(extra) > 0 && len(near.lacks) > 0 {
			check.Text += fmt.Sprintf("; besides, it has %s: of what %s does, it lacks %s", some(extra), article(near.role), some(near.lacks))
		}
		return check
	}
	check.Finding = FindingWarn
	check.Text = fmt.Sprintf("role %s may do most that %s does, but lacks %s", role, article(near.role), some(near.lacks))
	if best < 0.5 {
		check.Text = fmt.Sprintf("role %s may do little: of what %s does, it lacks %s", role, article(near.role), some(near.lacks))
	}
	check.Do = fmt.Sprintf("run what taskctl grants prints for the roles of this database, as after each migration; for this role that is --%v", near.role)
	if len(near.beyond) > 0 {
		check.Do = fmt.Sprintf("make another role, with taskctl grants --%v, and this one a member of it; given to this one itself, that would take from it %s", near.role, some(near.beyond))
	}
	return check
}

// article is who plays a part.
func article(role rights.Role) string {
	if role == rights.Operator {
		return "an operator"
	}
	return "a " + role.String()
}

// some names the first few of a list, and says how many more there are.
func some(all []string) string {
	const most = 5
	if more := len(all) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), more)
	}
	return strings.Join(all, ", ")
}
