package ops_test

import (
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
)

// providerAt is a provider of the SDK whose metrics are at /metrics.
func providerAt(t *testing.T, mux *http.ServeMux) *metric.MeterProvider {
	t.Helper()
	registry := prom.NewPedanticRegistry()
	exporter, err := prometheus.New(prometheus.WithRegisterer(registry))
	require.NoError(t, err)
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}))
	return metric.NewMeterProvider(metric.WithReader(exporter))
}

// check holds an expression to what is emitted, and returns the labels that its
// result has.
func check(t *testing.T, all names, expression string) (left map[string]bool) {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	require.NoError(t, err, expression)
	known := map[string]bool{}
	require.NoError(t, parser.Walk(visitor(func(node parser.Node) {
		v, ok := node.(*parser.VectorSelector)
		if !ok {
			return
		}
		require.Contains(t, all, v.Name, "no such metric is emitted: %s", expression)
		for label := range all[v.Name] {
			known[label] = true
		}
		for _, m := range v.LabelMatchers {
			if m.Name != labels.MetricName {
				require.True(t, all[v.Name][m.Name], "%s has no label %s: %s", v.Name, m.Name, expression)
			}
		}
	}), parsed, nil))
	left = known
	require.NoError(t, parser.Walk(visitor(func(node parser.Node) {
		var wanted []string
		switch n := node.(type) {
		case *parser.AggregateExpr:
			wanted = n.Grouping
			require.False(t, n.Without, "name the labels that are left: %s", expression)
			if len(left) == len(known) {
				left = map[string]bool{}
				for _, l := range wanted {
					left[l] = true
				}
			}
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				wanted = n.VectorMatching.MatchingLabels
			}
		}
		for _, l := range wanted {
			require.True(t, known[l], "none of its metrics has the label %s: %s", l, expression)
		}
	}), parsed, nil))
	return left
}

type visitor func(parser.Node)

func (v visitor) Visit(node parser.Node, _ []parser.Node) (parser.Visitor, error) {
	if node != nil {
		v(node)
	}
	return v, nil
}

// theEmitted is what is emitted, seen once for all tests.
var theEmitted = struct {
	once sync.Once
	all  names
}{}

func whatIsEmitted(t *testing.T) names {
	t.Helper()
	theEmitted.once.Do(func() { theEmitted.all = emitted(t) })
	require.NotEmpty(t, theEmitted.all)
	return theEmitted.all
}

var labelInText = regexp.MustCompile(`\$labels\.(\w+)`)

func TestAlerts(t *testing.T) {
	all := whatIsEmitted(t)
	groups, errs := rulefmt.ParseFile("pawl-alerts.yaml", false, model.LegacyValidation, parser.NewParser(parser.Options{}))
	require.Empty(t, errs)
	var used []string
	for _, g := range groups.Groups {
		for _, rule := range g.Rules {
			require.NotEmpty(t, rule.Alert)
			require.NotEmpty(t, rule.Annotations["summary"], rule.Alert)
			require.NotEmpty(t, rule.Annotations["description"], rule.Alert)
			require.Contains(t, []string{"page", "ticket"}, rule.Labels["severity"], rule.Alert)
			left := check(t, all, rule.Expr)
			for _, text := range rule.Annotations {
				for _, m := range labelInText.FindAllStringSubmatch(text, -1) {
					require.True(t, left[m[1]], "%s: the result has no label %s", rule.Alert, m[1])
				}
			}
			used = append(used, rule.Expr)
		}
	}
	for _, name := range []string{
		"pawl_queue_pending", "pawl_queue_oldest_age_seconds", "pawl_queue_dead_letters", "pawl_lease_expirations_total", "pawl_queue_stranded",
		"pawl_database_notification_queue_usage_ratio", "pawl_database_horizon_age_seconds",
	} {
		require.True(t, slices.ContainsFunc(used, func(e string) bool { return strings.Contains(e, name) }), "nothing alerts on %s", name)
	}
}

// dashboard is what the test reads of one.
type dashboard struct {
	UID        string
	Templating struct {
		List []struct {
			Name, Type string
			Query      any
			Definition string
		}
	}
	Panels []panel
}

type panel struct {
	ID      int
	Title   string
	Type    string
	GridPos struct{ H, W, X, Y int }
	Targets []struct {
		Expr, LegendFormat string
	}
	Panels []panel
}

var (
	valuesOf      = regexp.MustCompile(`^label_values\((.+), ?(\w+)\)$`)
	labelInLegend = regexp.MustCompile(`{{(\w+)}}`)
)

func TestDashboard(t *testing.T) {
	all := whatIsEmitted(t)
	raw, err := os.ReadFile("pawl-dashboard.json")
	require.NoError(t, err)
	var d dashboard
	require.NoError(t, json.Unmarshal(raw, &d))
	require.NotEmpty(t, d.UID)
	variables := []string{"$__rate_interval", "5m"}
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		m := valuesOf.FindStringSubmatch(v.Definition)
		require.NotNil(t, m, v.Definition)
		require.True(t, check(t, all, m[1])[m[2]], v.Definition)
		variables = append(variables, "$"+v.Name, "x")
	}
	fill := strings.NewReplacer(variables...)
	seen := map[int]bool{}
	charts := 0
	for _, p := range d.Panels {
		require.False(t, seen[p.ID], "two panels have the id %d", p.ID)
		seen[p.ID] = true
		require.NotEmpty(t, p.Title)
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		if p.Type == "row" {
			continue
		}
		charts++
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			left := check(t, all, fill.Replace(target.Expr))
			for _, m := range labelInLegend.FindAllStringSubmatch(target.LegendFormat, -1) {
				require.True(t, left[m[1]], "%s: the result has no label %s", p.Title, m[1])
			}
		}
	}
	require.Greater(t, charts, 10)
}

var nameInTable = regexp.MustCompile("(?m)^\\| `[a-z_.]+` <br> `([a-z_]+)` ")

// The document names what Prometheus sees, and nothing else.
func TestDocumentedNames(t *testing.T) {
	all := whatIsEmitted(t)
	raw, err := os.ReadFile("../docs/metrics.md")
	require.NoError(t, err)
	var documented, seen []string
	for _, m := range nameInTable.FindAllStringSubmatch(string(raw), -1) {
		documented = append(documented, m[1])
	}
	for name := range all {
		name = strings.TrimSuffix(strings.TrimSuffix(name, "_sum"), "_count")
		if !strings.HasSuffix(name, "_bucket") && (strings.HasPrefix(name, "pawl_") || strings.HasPrefix(name, "messaging_")) && !slices.Contains(seen, name) {
			seen = append(seen, name)
		}
	}
	require.ElementsMatch(t, seen, documented)
}

// The document shows how a worker gets a provider as the example does it.
func TestDocumentedWiring(t *testing.T) {
	document, err := os.ReadFile("../docs/metrics.md")
	require.NoError(t, err)
	example, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	_, block, ok := strings.Cut(string(document), "```go\n")
	require.True(t, ok)
	block, _, _ = strings.Cut(block, "```")
	require.Contains(t, string(example), block)
}
