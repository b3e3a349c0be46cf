package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/getsetlock/getsetlock/internal/bench"
)

var pageFolder = filepath.Join("..", "..", "docs")

func TestPageHasABlockOfEveryScenario(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(pageFolder, "performance.md"))
	if err != nil {
		t.Fatal(err)
	}
	if err := bench.CheckPage(string(text), everyScenario(&members{})); err != nil {
		t.Errorf("docs/performance.md: %v", err)
	}
	for _, s := range everyScenario(&members{}) {
		if !strings.Contains(string(text), "`"+s.Name+"`") {
			t.Errorf("docs/performance.md does not say what decides %q", s.Name)
		}
	}
}

// TestFolderHoldsThePagesPictures compares each file in docs/performance with
// the picture of the page's table. What has no table there has no picture.
func TestFolderHoldsThePagesPictures(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(pageFolder, "performance.md"))
	if err != nil {
		t.Fatal(err)
	}
	linked, pictures, err := bench.Pictures(string(text), everyScenario(&members{}))
	if err != nil {
		t.Fatal(err)
	}
	const remedy = "run scripts/bench.sh -draw -doc docs/performance.md"
	if linked != string(text) {
		t.Errorf("docs/performance.md does not link each picture: %s", remedy)
	}
	for name, svg := range pictures {
		if old, err := os.ReadFile(filepath.Join(pageFolder, name)); err != nil || string(old) != svg {
			t.Errorf("docs/%s is not the picture of its table (%v): %s", name, err, remedy)
		}
	}
	files, err := filepath.Glob(filepath.Join(pageFolder, "performance", "*"))
	if err != nil || len(files) != len(pictures) {
		t.Errorf("docs/performance holds %q (%v); the page links %d pictures", files, err, len(pictures))
	}
}
