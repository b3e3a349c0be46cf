// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// processEnv names the environment variable with the Spec of a process.
const processEnv = "BENCH_PROCESS"

// work is what a process of a measurement does: it prepares, prints "ready",
// awaits a line, does its work and prints the Result.
func work(text string) error {
	var s Spec
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	res, err := s.run(func() error {
		fmt.Println("ready")
		_, err := bufio.NewReader(os.Stdin).ReadString('\n')
		return err
	})
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(res)
}

// process is a process that prepares, prints "ready" and begins when it is
// told. It ends with the test.
type process struct {
	tb    testing.TB
	cmd   *exec.Cmd
	in    io.Writer
	out   *bufio.Reader
	noise bytes.Buffer
}

// longest is how long a process may take. No measurement takes as long.
const longest = 3 * time.Minute

// start starts a process of a measurement and returns when it is ready.
func (s Spec) start(tb testing.TB) *process {
	tb.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		tb.Fatal(err)
	}
	return start(tb, processEnv+"="+string(text), os.Args[0])
}

func start(tb testing.TB, env string, command ...string) *process {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	p := &process{tb: tb, cmd: exec.CommandContext(ctx, command[0], command[1:]...)}
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), env), &p.noise
	in, inErr := p.cmd.StdinPipe()
	out, outErr := p.cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, p.cmd.Start()); err != nil {
		cancel()
		tb.Fatalf("%v; make prepare installs what is missing", err)
	}
	tb.Cleanup(func() { cancel(); _ = p.cmd.Wait() })
	p.in, p.out = in, bufio.NewReader(out)
	if line := p.line(); line != "ready\n" {
		tb.Fatalf("%s says %q instead of ready", command[0], line)
	}
	return p
}

// line returns the next line of the process's output.
func (p *process) line() string {
	p.tb.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		_ = p.cmd.Wait()
		p.tb.Fatalf("%s: %v, %s", p.cmd.Args[0], p.cmd.ProcessState, strings.TrimSpace(p.noise.String()))
	}
	return line
}

// tell lets the process begin.
func (p *process) tell() { fmt.Fprintln(p.in) }

func (p *process) result() (res Result) {
	p.tb.Helper()
	if err := json.Unmarshal([]byte(p.line()), &res); err != nil {
		p.tb.Fatal(err)
	}
	return res
}

// together runs processes that begin at the same time, and adds up what they
// measured. It calls begins, which may be nil, just before they begin.
func together(b *testing.B, begins func(), specs ...Spec) (sum Result) {
	b.Helper()
	var all []*process
	for _, s := range specs {
		all = append(all, s.start(b))
	}
	if begins != nil {
		begins()
	}
	before := commands(b, specs[0].Addrs...)
	for _, p := range all {
		p.tell()
	}
	sum = all[0].result()
	for i, p := range all[1:] {
		sum.add(i+1, p.result())
	}
	sum.Commands = commands(b, specs[0].Addrs...) - before
	return sum
}

// commands returns how many commands the servers have executed, those inside
// scripts included.
func commands(b *testing.B, addrs ...string) (sum float64) {
	b.Helper()
	for _, addr := range addrs {
		sum += info(b, addr, "commandstats", calls)
	}
	return sum
}

var (
	calls = regexp.MustCompile(`:calls=(\d+)`)
	cpu   = regexp.MustCompile(`used_cpu_(?:sys|user):([\d.]+)`)
)

// info adds up what a pattern finds in a section of a server's INFO.
func info(b *testing.B, addr, section string, pattern *regexp.Regexp) (sum float64) {
	b.Helper()
	conn, err := redis.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	text, err := redis.String(conn.Do("INFO", section))
	if err != nil {
		b.Fatal(err)
	}
	for _, found := range pattern.FindAllStringSubmatch(text, -1) {
		n, err := strconv.ParseFloat(found[1], 64)
		if err != nil {
			b.Fatal(err)
		}
		sum += n
	}
	return sum
}
