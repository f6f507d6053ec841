// Type-checks the package in the current folder against the sources of what it imports, none of which is compiled:
// some seconds for a library whose build takes minutes.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string
	DepOnly         bool
}

type imports func(path string) (*types.Package, error)

func (find imports) Import(path string) (*types.Package, error) { return find(path) }

func main() {
	list := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,ImportMap,DepOnly", ".")
	list.Env, list.Stderr = append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
	out, err := list.StdoutPipe()
	if err == nil {
		err = list.Start()
	}
	checked, files := map[string]*types.Package{"unsafe": types.Unsafe}, token.NewFileSet()
	for lines := json.NewDecoder(out); err == nil; { // what is imported comes first
		var found listed
		if err = lines.Decode(&found); err != nil || found.ImportPath == "unsafe" {
			continue
		}
		var parsed []*ast.File
		for _, name := range found.GoFiles {
			file, failed := parser.ParseFile(files, filepath.Join(found.Dir, name), nil, parser.SkipObjectResolution)
			err = errors.Join(err, failed)
			parsed = append(parsed, file)
		}
		config := types.Config{
			IgnoreFuncBodies: found.DepOnly,
			Sizes:            types.SizesFor("gc", "amd64"),
			Importer: imports(func(path string) (*types.Package, error) {
				if mapped, other := found.ImportMap[path]; other {
					path = mapped
				}
				return checked[path], nil
			}),
		}
		if err == nil {
			checked[found.ImportPath], err = config.Check(found.ImportPath, files, parsed, nil)
		}
	}
	if err = errors.Join(err, list.Wait()); !errors.Is(err, io.EOF) {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(len(checked), "packages checked")
}
