// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.yaml.in/yaml/v2"

	locks "github.com/getsetlock/getsetlock/adapters/prometheus"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/modern"
)

// doc: wire
// newLocks returns a Client of the token lock that Prometheus watches.
func newLocks(pool *redis.Pool, registry prometheus.Registerer) (*lock.Client, error) {
	hooks, err := locks.Hooks(registry, "billing")
	if err != nil {
		return nil, err
	}
	backend, err := modern.New(pool, modern.Config{Fence: true})
	if err != nil {
		return nil, err
	}
	if err := locks.Counts(registry, "billing", backend.Stats); err != nil {
		return nil, err
	}
	client, err := lock.New(backend, lock.Config{Hooks: hooks, Wait: 10 * time.Second})
	if err != nil {
		return nil, err
	}
	return client, locks.Oldest(registry, "billing", client)
}

// doc: end

type rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func rules(t *testing.T) []rule {
	t.Helper()
	text, err := os.ReadFile("alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string `yaml:"name"`
			Rules []rule `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Groups) != 1 || len(file.Groups[0].Rules) < 8 {
		t.Fatalf("%d groups", len(file.Groups))
	}
	return file.Groups[0].Rules
}

var (
	metric = regexp.MustCompile(`\block_\w+`)
	label  = regexp.MustCompile(`(\w+)="(\w+)"`)
)

// exported are the names of the metrics and what their labels may be.
func exported(t *testing.T) (names, labels map[string]bool) {
	t.Helper()
	server, registry := miniredis.RunT(t), prometheus.NewRegistry()
	pool := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", server.Addr())
	}}
	client, err := newLocks(pool, registry)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close(context.Background())
	for job, register := range map[string]func(string) error{
		"legacy": func(job string) error {
			return locks.Counts(registry, job, func() legacy.Stats { return legacy.Stats{} })
		},
		"bridge": func(job string) error {
			return locks.Counts(registry, job, func() migrate.BridgeStats { return migrate.BridgeStats{} })
		},
	} {
		if err := register(job); err != nil {
			t.Fatal(err)
		}
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	names, labels = map[string]bool{}, map[string]bool{}
	for _, f := range families {
		names[f.GetName()] = true
		for _, m := range f.Metric {
			if m.Histogram != nil {
				names[f.GetName()+"_bucket"] = true
			}
			for _, l := range m.Label {
				labels[l.GetName()+`="`+l.GetValue()+`"`] = true
			}
		}
	}
	return names, labels
}

func TestAlertsUseMetricsThatAreExported(t *testing.T) {
	names, labels := exported(t)
	for _, r := range rules(t) {
		used := metric.FindAllString(r.Expr, -1)
		if len(used) == 0 {
			t.Errorf("%s uses no metric of locks", r.Alert)
		}
		for _, name := range used {
			if !names[name] {
				t.Errorf("%s: there is no metric %s", r.Alert, name)
			}
		}
		for _, m := range label.FindAllStringSubmatch(r.Expr, -1) {
			if !labels[m[0]] {
				t.Errorf("%s: no metric has the label %s", r.Alert, m[0])
			}
		}
	}
}

func TestAlertsAreComplete(t *testing.T) {
	var seen []string
	for _, r := range rules(t) {
		if r.Alert == "" || slices.Contains(seen, r.Alert) {
			t.Errorf("the name %q is missing or used twice", r.Alert)
		}
		seen = append(seen, r.Alert)
		if severity := r.Labels["severity"]; severity != "page" && severity != "ticket" ||
			r.Annotations["summary"] == "" {
			t.Errorf("%s: labels %v, annotations %v", r.Alert, r.Labels, r.Annotations)
		}
		if _, err := time.ParseDuration(r.For); r.For != "" && err != nil {
			t.Errorf("%s: for: %v", r.Alert, err)
		}
		for _, pair := range []string{"()", "{}", "[]"} {
			if strings.Count(r.Expr, pair[:1]) != strings.Count(r.Expr, pair[1:]) {
				t.Errorf("%s: %s do not match in %s", r.Alert, pair, r.Expr)
			}
		}
	}
}

// The page says that three things should wake a person.
func TestThreeAlertsWakeAPerson(t *testing.T) {
	var page []string
	for _, r := range rules(t) {
		if r.Labels["severity"] == "page" {
			page = append(page, r.Alert)
		}
	}
	if want := []string{"LeaseLost", "ServerClockStepped", "LockMetricsAbsent"}; !slices.Equal(page, want) {
		t.Errorf("%q, want %q", page, want)
	}
}

// The page names each alert, its threshold and why, and no other alert.
func TestPageExplainsEachAlert(t *testing.T) {
	page, err := os.ReadFile("../../docs/guide/watching.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `([A-Z][A-Za-z]+)` \\| ([^|]+) \\| ([^|]{10,}) \\|$")
	_, table, _ := strings.Cut(string(page), "| alert | threshold |")
	table, _, _ = strings.Cut(table, "\n\n")
	explained := map[string]bool{}
	for _, found := range row.FindAllStringSubmatch(table, -1) {
		explained[found[1]] = true
	}
	for _, r := range rules(t) {
		if !explained[r.Alert] {
			t.Errorf("docs/guide/watching.md has no row with a threshold and a reason for %s", r.Alert)
		}
		delete(explained, r.Alert)
	}
	for name := range explained {
		t.Errorf("docs/guide/watching.md explains %s, which is no alert", name)
	}
}

func TestCountsAndOldestHoldAreExported(t *testing.T) {
	server, registry := miniredis.RunT(t), prometheus.NewRegistry()
	pool := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", server.Addr())
	}}
	client, err := newLocks(pool, registry)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	defer client.Close(ctx)
	want := `
# HELP lock_backend_total What the backend counted, by its field.
# TYPE lock_backend_total counter
lock_backend_total{job_kind="billing",what="replicas_missing"} 0
lock_backend_total{job_kind="billing",what="unsure"} 0
# HELP lock_oldest_hold_timestamp_seconds Begin of the longest hold, 0 if there is none.
# TYPE lock_oldest_hold_timestamp_seconds gauge
lock_oldest_hold_timestamp_seconds{job_kind="billing"} 0
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "lock_backend_total",
		"lock_oldest_hold_timestamp_seconds"); err != nil {
		t.Error(err)
	}
	lease, err := client.Acquire(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Release()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "lock_oldest_hold_timestamp_seconds" {
			began := float64(client.Stats().Oldest.UnixMilli()) / 1000
			if got := f.Metric[0].Gauge.GetValue(); got != began || began == 0 {
				t.Errorf("the oldest hold began at %v, want %v", got, began)
			}
		}
	}
}
