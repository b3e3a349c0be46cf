// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/clocks"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/operator/keys"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
	"github.com/getsetlock/getsetlock/internal/wire"
)

// serverFacts are what a server reports about itself and about this user's
// rights, as far as it lets this user ask.
type serverFacts struct {
	info     map[string]string // the fields of INFO; nil: refused
	config   map[string]string // the parameters that could be read
	refused  []refusal
	tracking error // the error of CLIENT TRACKING ON; nil: it works

	subscribing error // the error of SUBSCRIBE on the same connection
	timeWrite   error // the error of a script that reads the clock and then writes
	timeUntold  bool  // timeWrite could not be tried
	node        bool  // all primaries of its cluster are examined
	offset      time.Duration
	rtt         time.Duration // round trip of the reading that offset comes from
}

// refusal is a command that this user may not use or the server does not know.
type refusal struct {
	command, need string
	err           error
}

// trials are the commands that getsetlock needs, in forms that change nothing:
// each names a random key that does not exist.
var trials = []struct {
	need string
	cmd  func(key string) wire.Command
}{
	{"every lock and every look", func(k string) wire.Command { return wire.Cmd("GET", k) }},
	{"every lock and every look", func(k string) wire.Command { return wire.Cmd("PTTL", k) }},
	{"every look", func(k string) wire.Command { return wire.Cmd("TYPE", k) }},
	{"ls, audit and doctor", func(string) wire.Command { return wire.Cmd("SCAN", 0, "COUNT", 1) }},
	{"audit and doctor", func(k string) wire.Command { return wire.Cmd("GETRANGE", k, 0, 0) }},
	{"audit and doctor", func(k string) wire.Command { return wire.Cmd("STRLEN", k) }},
	{"audit and doctor", func(k string) wire.Command { return wire.Cmd("EXISTS", k) }},
	{"every lock and every look", func(string) wire.Command { return wire.Cmd("TIME") }},
	{"token locks", func(k string) wire.Command { return wire.Cmd("SET", k, "", "XX", "PX", 1) }},
	{"releases and doctor --fix", func(k string) wire.Command { return wire.Cmd("DEL", k) }},
	{"renewals", func(k string) wire.Command { return wire.Cmd("PEXPIRE", k, 1) }},
	{"every lock, and doctor --fix",
		func(k string) wire.Command { return wire.Cmd("EVAL", "return 0", 1, k) }},
	{"audit's names of clients", func(string) wire.Command { return wire.Cmd("CLIENT", "LIST") }},
}

// askServer collects the facts. A refused command becomes a fact; only an error
// that makes further questions pointless is returned.
func askServer(ctx context.Context, mux *wire.Mux, pool *redis.Pool, match string,
	clock clocks.Clock) (*serverFacts, error) {
	f := &serverFacts{config: map[string]string{}}
	info, err := wire.Info(mux.Do(ctx, "INFO"))
	switch {
	case refusedBy(err):
		f.refused = append(f.refused,
			refusal{"INFO", "what doctor says of memory, persistence and replicas, and audit's cost", err})
	case err != nil:
		return f, fmt.Errorf("asking for INFO: %w", err)
	default:
		f.info = info
	}
	f.askConfig(ctx, mux)
	key := trialKey(match)
	cmds := make([]wire.Command, len(trials))
	for i, t := range trials {
		cmds[i] = t.cmd(key)
	}
	for i, reply := range mux.Batch(ctx, cmds) {
		switch {
		case wire.IsReadOnly(reply.Err): // judgeRole reports this
		case wire.IsRedirect(reply.Err): // it may be used: rights are judged before slots
		case refusedBy(reply.Err):
			f.refused = append(f.refused, refusal{trialName(cmds[i]), trials[i].need, reply.Err})
		case reply.Err != nil:
			return f, fmt.Errorf("trying %s: %w", trialName(cmds[i]), reply.Err)
		}
	}
	const timeThenWrite = "redis.call('TIME') return redis.call('DEL', KEYS[1])"
	if _, f.timeWrite = mux.Do(ctx, "EVAL", timeThenWrite, 1, key); wire.IsReadOnly(f.timeWrite) ||
		wire.IsNoPerm(f.timeWrite) || wire.IsRedirect(f.timeWrite) {
		f.timeWrite, f.timeUntold = nil, true
	}
	f.tracking, f.subscribing = tryTracking(ctx, pool, mux.Timeout())
	return f, f.compareClocks(ctx, mux, clock)
}

// trialName returns the command's name, with its subcommand if ACLs name that
// too.
func trialName(c wire.Command) string {
	if c.Name == "CLIENT" {
		return "CLIENT LIST"
	}
	return c.Name
}

// refusedBy reports whether the server refused the command. It is false if the
// server was unreachable, is loading or busy, or wants a password first.
func refusedBy(err error) bool {
	var said redis.Error
	return errors.As(err, &said) && !wire.IsLoading(err) && !wire.IsNoAuth(err) && !wire.IsBusy(err)
}

// trialKey returns a random key that does not exist. It begins with the literal
// prefix of the pattern, since rights depend on the key's name.
func trialKey(match string) string {
	if at := strings.IndexAny(match, `*?[\`); at >= 0 {
		match = match[:at]
	}
	return match + reading.TrialKey + rand.Text()
}

func (f *serverFacts) askConfig(ctx context.Context, mux *wire.Mux) {
	names := []string{"save", "appendfsync", "timeout", "min-replicas-to-write",
		"stop-writes-on-bgsave-error", "maxmemory-policy"}
	for _, name := range names {
		pair, err := redis.Strings(mux.Do(ctx, "CONFIG", "GET", name))
		if refusedBy(err) {
			f.refused = append(f.refused,
				refusal{"CONFIG GET", "what doctor says of snapshots and idle connections", err})
			return
		}
		if len(pair) == 2 {
			f.config[name] = pair[1]
		}
	}
}

// tryTracking tries both commands on a connection of its own and closes it,
// which also ends the tracking. A proxy may never answer, so each reply is
// awaited for at most timeout.
func tryTracking(ctx context.Context, pool *redis.Pool, timeout time.Duration) (tracking, subscribing error) {
	ctx, cancel := context.WithTimeout(ctx, 2*timeout)
	defer cancel()
	c, err := keys.Dial(ctx, pool)
	if err != nil {
		return err, nil
	}
	defer c.Close()
	if _, err := redis.DoWithTimeout(c, timeout, "CLIENT", "TRACKING", "ON"); err != nil {
		return err, nil
	}
	_, err = redis.DoWithTimeout(c, timeout, "SUBSCRIBE", "__redis__:invalidate")
	return nil, err
}

// compareClocks measures the offset of this machine's clock to the server's,
// from the quickest of five readings.
func (f *serverFacts) compareClocks(ctx context.Context, mux *wire.Mux, clock clocks.Clock) error {
	for n := range 5 {
		sent := clock.Moment()
		server, err := wire.Time(mux.Do(ctx, "TIME"))
		rtt := clock.Elapsed() - sent.Elapsed
		if refusedBy(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if n == 0 || rtt < f.rtt {
			f.rtt, f.offset = rtt, sent.Wall.Round(0).Add(rtt/2).Sub(server)
		}
	}
	return nil
}

func (f *serverFacts) number(name string) int64 {
	n, _ := strconv.ParseInt(f.info[name], 10, 64)
	return n
}

// words returns the facts as sentences for people.
func (f *serverFacts) words() []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if f.info != nil {
		version := f.info["redis_version"]
		if v := f.info["valkey_version"]; v != "" {
			version = "Valkey " + v + " (as Redis " + version + ")"
		}
		add("calls itself %s, role %s, up %s", cmp.Or(version, "unknown"), cmp.Or(f.info["role"], "unknown"),
			roughly(time.Duration(f.number("uptime_in_seconds"))*time.Second))
		add("memory limit %s, when full: %s", memoryWords(f.number("maxmemory")),
			cmp.Or(f.policy(), "unknown"))
		add("append-only file %s, snapshots %s, replicas %d", onOff(f.info["aof_enabled"] == "1"),
			snapshotWords(f.config), f.number("connected_slaves"))
	}
	add("wake-ups (tracking): %s; scripts that read the clock and write: %s", tried(f.tracking),
		f.timeWords())
	if f.rtt > 0 {
		add("this machine's clock minus the server's: %s, give or take %s",
			f.offset.Round(100*time.Microsecond), (f.rtt / 2).Round(time.Microsecond))
	}
	return out
}

func (f *serverFacts) policy() string {
	if p := f.config["maxmemory-policy"]; p != "" {
		return p
	}
	return f.info["maxmemory_policy"]
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func (f *serverFacts) timeWords() string {
	if f.timeUntold {
		return "unknown"
	}
	return tried(f.timeWrite)
}

func tried(err error) string {
	if err != nil {
		return "no"
	}
	return "yes"
}

func memoryWords(bytes int64) string {
	if bytes == 0 {
		return "none"
	}
	return fmt.Sprintf("%d MiB", bytes>>20)
}

func snapshotWords(config map[string]string) string {
	save, known := config["save"]
	switch {
	case !known:
		return "unknown"
	case save == "":
		return "off"
	}
	return "on"
}

// judge returns the findings: the facts that matter to locks.
func (f *serverFacts) judge() []census.Finding {
	var out []census.Finding
	add := func(s census.Severity, kind, what, advice string) {
		out = append(out, census.Finding{Severity: s, Kind: kind, What: what, Advice: advice})
	}
	if f.info != nil {
		f.judgeRole(add)
		f.judgeMemory(add)
		f.judgeDisk(add)
	}
	f.judgeFeatures(add)
	f.judgeRights(add)
	if off := f.offset.Abs() - f.rtt/2; off > time.Second {
		side := "ahead of"
		if f.offset < 0 {
			side = "behind"
		}
		add(census.SeverityWarning, "clock",
			fmt.Sprintf(
				"this machine's clock is %s %s the server's: old clients that run here stamp and judge by it", roughly(f.offset.Abs()), side),
			"let a time service synchronize it (chronyc tracking, timedatectl)")
	}
	return out
}

type addFinding func(s census.Severity, kind, what, advice string)

func (f *serverFacts) judgeRole(add addFinding) {
	if role := f.info["role"]; role == "slave" || role == "replica" {
		add(census.SeverityError, "role",
			"this server is a replica: no client can lock on it, and it shows the locks of its primary late", "point the address at the primary")
		return
	}
	if f.info["cluster_enabled"] == "1" && !f.node {
		add(census.SeverityWarning, "cluster", "this is a node of a cluster, and this report covers this node only", "write redis+cluster://, and doctor looks at all primaries; for old clients' locks use a single primary")
	}
	replicas := f.number("connected_slaves")
	if replicas == 0 {
		return
	}
	what := fmt.Sprintf("it has replicas (%d): a fail-over may promote one that lacks the latest locks, and then two clients hold the same lock", replicas)
	if f.config["min-replicas-to-write"] == "0" {
		what += "; the primary also goes on when it has lost them all"
	}
	add(census.SeverityWarning, "replicas", what, "token locks can wait for them (getsetlock run --replicas N), old ones cannot; set min-replicas-to-write 1 where fail-over is automatic")
	if major, _, ok := strings.Cut(f.info["redis_version"], "."); ok {
		if n, err := strconv.Atoi(major); err == nil && n < 7 {
			add(census.SeverityNote, "replica_ttl", "it calls itself "+f.info["redis_version"]+": before 7.0, a replica counts a TTL from when it receives it, so a promoted replica frees keys late",
				"use 7.0 or later")
		}
	}
}

func (f *serverFacts) judgeMemory(add addFinding) {
	policy, limit := f.policy(), f.number("maxmemory")
	if evicted := f.number("evicted_keys"); evicted > 0 {
		add(census.SeverityError, "evicted",
			fmt.Sprintf(
				"it has deleted %d keys for lack of memory since its start: locks may have been among them", evicted),
			"set maxmemory-policy noeviction, or give locks a server of their own")
	}
	switch {
	case limit == 0 && policy != "" && policy != "noeviction":
		add(census.SeverityNote, "eviction",
			"it deletes keys when memory is full ("+policy+"), but has no memory limit now",
			"set maxmemory-policy noeviction before a limit is set")
	case limit == 0:
	case strings.HasPrefix(policy, "allkeys-"):
		add(census.SeverityError, "eviction", fmt.Sprintf("it deletes keys when its memory limit of %s is reached (%s), locks too: then two clients hold the same lock", memoryWords(limit), policy),
			"set maxmemory-policy noeviction, or give locks a server of their own")
	case strings.HasPrefix(policy, "volatile-"):
		add(census.SeverityError, "eviction", fmt.Sprintf("it deletes keys that have a TTL when its memory limit of %s is reached (%s): all locks of getsetlock clients have one", memoryWords(limit), policy),
			"set maxmemory-policy noeviction, or give locks a server of their own")
	case policy == "noeviction":
		add(census.SeverityNote, "memory", fmt.Sprintf("it refuses writes when its memory limit of %s is reached: then no client can take or renew a lock", memoryWords(limit)), "watch used_memory")
	}
}

func (f *serverFacts) judgeDisk(add addFinding) {
	aof, save := f.info["aof_enabled"] == "1", f.config["save"]
	_, known := f.config["save"]
	switch {
	case aof && f.config["appendfsync"] == "always":
	case aof:
		add(census.SeverityNote, "persistence", "it writes its append-only file to the disk about every second: a crash of the machine loses the last second's locks, and two clients may hold the same lock",
			"set appendfsync always where that matters more than speed")
	case known && save == "":
		add(census.SeverityWarning, "persistence",
			"it keeps nothing on disk: after a restart every lock is free, while its holders work on",
			"turn on the append-only file, or keep clients away for the longest lease after a restart")
	case known:
		add(census.SeverityWarning, "persistence", "it keeps snapshots only: after a restart the locks of the last snapshot are back, released ones as ghosts, and newer ones are gone, while their holders work on",
			"turn on the append-only file, or keep clients away for the longest lease after a restart")
	default:
		add(census.SeverityNote, "persistence", "it writes no append-only file; this user may not ask whether it keeps snapshots: after a restart, locks are lost or old ones are back", "turn on the append-only file")
	}
	if f.info["rdb_last_bgsave_status"] == "err" || f.info["aof_last_write_status"] == "err" {
		add(census.SeverityError, "disk",
			"its last write to the disk failed: it may refuse all writes until one succeeds (MISCONF)",
			"see the server's log and its disk")
	}
	if f.info["loading"] == "1" {
		add(census.SeverityError, "loading", "it is still reading its data from disk",
			"ask again when it has loaded")
	}
}

func (f *serverFacts) judgeFeatures(add addFinding) {
	if f.tracking != nil && refusedBy(f.tracking) {
		add(census.SeverityNote, "tracking",
			"it has no client-side tracking, or this user may not use it ("+f.tracking.Error()+
				"): clients that wait for old clients' locks poll instead of being woken",
			"use Redis 6 or later, and allow +client|tracking and the channel __redis__:invalidate")
	}
	if f.subscribing != nil {
		add(census.SeverityNote, "subscribe", "it has client-side tracking, but SUBSCRIBE does not work ("+f.subscribing.Error()+"): waiters poll instead of being woken", "connect to the server itself if a proxy is in between, or allow +subscribe and the channel __redis__:invalidate")
	}
	if f.timeWrite != nil && !wire.IsUnknownCommand(f.timeWrite) {
		add(census.SeverityNote, "scripts", "its scripts cannot write after reading the clock: the hardened lock asks for the time in a message of its own, and its margin grows by that round trip", "use Redis 5 or later")
	}
	if idle := f.config["timeout"]; idle != "" && idle != "0" {
		add(census.SeverityNote, "idle",
			"it closes connections that were idle for "+idle+
				" s: getsetlock clients reconnect, old clients may throw exceptions", "set timeout 0")
	}
}

func (f *serverFacts) judgeRights(add addFinding) {
	for _, r := range f.refused {
		what := fmt.Sprintf("this user may not use %s (%s), which is needed for %s", r.command, r.err, r.need)
		advice := "let its ACL allow it"
		if wire.IsUnknownCommand(r.err) {
			what = fmt.Sprintf("the server does not know %s (%s), which is needed for %s", r.command, r.err,
				r.need)
			advice = "it was renamed, or a proxy is in between: connect to the server itself"
		}
		severity := census.SeverityWarning
		if slices.Contains([]string{"INFO", "CONFIG GET", "CLIENT LIST"}, r.command) {
			severity = census.SeverityNote
		}
		add(severity, "right", what, advice)
	}
}
