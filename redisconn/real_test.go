// SPDX-License-Identifier: Apache-2.0

//go:build real

package redisconn

import (
	"strings"
	"testing"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

func TestTLSUnixSocketsAndUsersOnARealServer(t *testing.T) {
	tls := redistest.Real(t, redistest.Options{TLS: true, Password: "s3cret@/x"})
	if err := dial(t, tls.URL(), Options{CACert: tls.CACert()}); err != nil {
		t.Error(err)
	}
	err := dial(t, tls.URL(), Options{})
	if err == nil || !strings.Contains(err.Error(), "certificate") ||
		strings.Contains(err.Error(), "s3cret") {
		t.Errorf("without the authority: %v", err)
	}

	other := redistest.Real(t, redistest.Options{TLS: true})
	err = dial(t, tls.URL(), Options{CACert: other.CACert(), CACertFrom: "--ca"})
	if err == nil || !strings.Contains(err.Error(),
		"checked against the certificates of --ca "+other.CACert()) ||
		strings.Contains(err.Error(), "s3cret") {
		t.Errorf("with another authority: %v", err)
	}

	unix := redistest.Real(t, redistest.Options{Unix: true, Password: "s3cret@/x"})
	if err := dial(t, unix.URL(), Options{}); err != nil {
		t.Error(err)
	}

	plain := redistest.Real(t, redistest.Options{})
	if err := dial(t, plain.User("app", "s3cret@/x", "+@all", "~*"), Options{}); err != nil {
		t.Error(err)
	}
	err = dial(t, plain.URLFor("app", "s3cret@/y"), Options{})
	if err == nil || !strings.Contains(err.Error(), "WRONGPASS") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("with the wrong password: %v", err)
	}
}
