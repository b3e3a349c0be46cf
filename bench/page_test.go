package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var pageFolder = filepath.Join("..", "docs")

func TestPageHasABlockOfEveryScenario(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(pageFolder, "performance.md"))
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckPage(string(text), everyScenario(&members{})); err != nil {
		t.Errorf("docs/performance.md: %v", err)
	}
	for _, s := range everyScenario(&members{}) {
		if !strings.Contains(string(text), "`"+s.Name+"`") {
			t.Errorf("docs/performance.md does not say what decides %q", s.Name)
		}
	}
}
