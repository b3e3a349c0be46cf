// SPDX-License-Identifier: Apache-2.0

//go:build real

package main

import (
	"testing"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

func TestOneOfThreeScheduledCommandsRunsOnServers(t *testing.T) {
	for _, b := range redistest.Servers(t) {
		t.Run(b.Name, func(t *testing.T) { scheduleThrice(t, b.Start(t, redistest.Options{}).URL()) })
	}
}
