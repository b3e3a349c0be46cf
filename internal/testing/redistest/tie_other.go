//go:build !linux

package redistest

import "os/exec"

func tie(*exec.Cmd) {}
