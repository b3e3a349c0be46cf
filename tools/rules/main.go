package main

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	left := flag.Bool("left", false,
		"print how much each check of prose finds in each folder, and end with 0")
	on := flag.String("on", strings.Join(enforced, ","),
		"the checks of prose that fail, with commas: comments, code, words, names")
	flag.Parse()
	found, err := checkTree(os.DirFS("."), walls, exceptions)
	all := &reading{}
	if err == nil {
		var plain []byte
		if plain, err = os.ReadFile("tools/rules/plain.txt"); err == nil {
			all, err = readProse(os.DirFS("."), string(plain))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "rules:", err)
		os.Exit(3)
	}
	if *left {
		fmt.Print(all.left())
		return
	}
	for _, check := range strings.Split(*on, ",") {
		found = append(found, all.places[check]...)
	}
	for _, f := range found {
		fmt.Println(f)
	}
	if len(found) > 0 {
		os.Exit(1)
	}
}

// checkTree checks every Go file of a repository, that each package says what
// it is, the directions of imports, and how many names are exported.
func checkTree(root fs.FS, walls []wall, exceptions []string) ([]string, error) {
	var found []string
	imported, names := imports{}, map[string]int{}
	introduced := map[string]bool{} // package folders, and whether a file has a package comment
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if base := d.Name(); name != "." &&
				(strings.HasPrefix(base, ".") || base == "testdata" || base == "target") {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		places, err := check(name, string(text))
		found = append(found, places...)
		imported.add(name, string(text))
		if err == nil {
			err = count(names, name, string(text))
		}
		if !strings.HasSuffix(name, "_test.go") {
			folder := path.Dir(name)
			introduced[folder] = introduced[folder] || hasPackageComment(string(text))
		}
		return err
	})
	for folder, ok := range introduced {
		if !ok {
			found = append(found, folder+": no file has a package comment")
		}
	}
	found = append(append(found, imported.breaches(walls, exceptions)...), tooMany(names)...)
	slices.Sort(found)
	return found, err
}
