// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/getsetlock/getsetlock/internal/record"
)

// checkTarget refuses a name that people cannot read.
func (cfg MemberConfig) checkTarget() error {
	if len(cfg.Target) > longestName || !utf8.ValidString(cfg.Target) {
		return fmt.Errorf("migrate: MemberConfig.Target has %d bytes; at most %d of UTF-8 are allowed",
			len(cfg.Target), longestName)
	}
	return nil
}

// target is the target with which the program takes its locks; empty without
// one.
func (m *Member) target() string { return m.cfg.Target }

// apart says why the program takes no lock by a record: the other members have
// another target, and would not see its locks. Before clean every lease has M,
// so targets may differ, unless leases of clean are left that have the target
// alone.
func (m *Member) apart(r Record) error {
	if r.Target == m.cfg.Target || r.Target == "" && r.Phase != Clean {
		return nil
	}
	if m.cfg.Target == "" {
		return fmt.Errorf("namespace %q takes its locks by the target %q, and this program by none: let a Go program compose its locks with that target (migrate.Compose) and name it in MemberConfig.Target; in clean, a command may run under getsetlock run --target instead",
			m.cfg.Namespace, r.Target)
	}
	if r.Target == "" {
		return fmt.Errorf("namespace %q went to clean without a target, and this program composes its locks with %q: start it without the target, or begin anew by getsetlock migrate init",
			m.cfg.Namespace, m.cfg.Target)
	}
	return fmt.Errorf("namespace %q takes its locks by the target %q, and this program by %q: compose its locks with the one that the namespace has",
		m.cfg.Namespace, r.Target, m.cfg.Target)
}

// alone says why a lock may not be taken by the bridge alone: the member has
// told the gates that all its locks are composed.
func (b *bridgeEngine) alone() error {
	if b.member == nil || b.member.target() == "" {
		return nil
	}
	return fmt.Errorf("migrate: MemberConfig.Target says that this program composes its locks with %q, and this one is taken by the bridge alone: take it by migrate.Compose",
		b.member.target())
}

// composable says why a bridge may not be composed: its member tells the gates
// that no lock of the program is.
func (b *bridgeEngine) composable() error {
	if b.member == nil || b.member.target() != "" {
		return nil
	}
	return fmt.Errorf("migrate: Compose: the member names no target, and the gate to clean has to know it: set MemberConfig.Target to a name for the cluster and the part of it that has the locks, the same in every program")
}

// targetLine writes a text as [record.Line] does, with the target before place
// at. The word is there only where there is a target, so that a fleet without
// one writes what it always wrote.
func targetLine(names, values []string, at int, target string) string {
	if target != "" {
		names = slices.Insert(slices.Clone(names), at, record.TargetName)
		values = slices.Insert(values, at, record.Word(target))
	}
	return record.Line(names, values)
}

// targetWords returns the values of a text that [targetLine] wrote, and apart
// from them the target's.
func targetWords(text string, names []string, at int) (values []string, target string, err error) {
	if !strings.Contains(text, " "+record.TargetName+"=") {
		values, err = record.Words(text, names...)
		return values, "", err
	}
	values, err = record.Words(text, slices.Insert(slices.Clone(names), at, record.TargetName)...)
	if err != nil {
		return nil, "", err
	}
	target = values[at]
	return slices.Delete(values, at, at+1), target, nil
}
