package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

// process is the parent's view of a child of a measurement.
type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	noise strings.Builder
}

// start starts a child and returns when it is ready.
func start(ctx context.Context, command []string, s Spec) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, command[0], command[1:]...)}
	p.cmd.Stderr = &p.noise
	p.cmd.WaitDelay = time.Second
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	text, err := json.Marshal(s)
	if err == nil {
		_, err = p.in.Write(append(text, '\n'))
	}
	if err == nil {
		_, err = p.read()
	}
	if err != nil {
		p.end()
		return nil, p.explain(err)
	}
	return p, nil
}

// begin lets the child do its work.
func (p *process) begin() error {
	_, err := io.WriteString(p.in, "go\n")
	return err
}

// result waits for the child's result and its end.
func (p *process) result() (*Result, error) {
	defer p.end()
	a, err := p.read()
	if err != nil {
		return nil, p.explain(err)
	}
	if a.Result == nil {
		return nil, errors.New("bench: a process ended without a result")
	}
	return a.Result, nil
}

func (p *process) read() (a answer, err error) {
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(line, &a); err != nil {
		return a, fmt.Errorf("a process of the measurement said %.100q", line)
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	return a, nil
}

// kill ends the child abruptly, as a crash does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	p.end()
}

// end closes the child's input, at which it gives up, and waits for its end.
func (p *process) end() {
	_ = p.in.Close()
	_ = p.cmd.Wait()
}

func (p *process) explain(err error) error {
	if noise := strings.TrimSpace(p.noise.String()); noise != "" && errors.Is(err, io.EOF) {
		return fmt.Errorf("a process of the measurement ended: %.400s", noise)
	}
	return err
}

// together runs several children that begin at the same time. It calls begins,
// which may be nil, just before.
func together(ctx context.Context, command []string, begins func(), specs ...Spec) ([]*Result, error) {
	var all []*process
	defer func() {
		for _, p := range all {
			p.kill()
		}
	}()
	for _, s := range specs {
		p, err := start(ctx, command, s)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	if begins != nil {
		begins()
	}
	for _, p := range all {
		if err := p.begin(); err != nil {
			return nil, p.explain(err)
		}
	}
	var results []*Result
	for len(all) > 0 {
		r, err := all[0].result()
		all = all[1:]
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}
