// SPDX-License-Identifier: Apache-2.0

// Renders a Helm chart's folder as `helm template` does, as far as this project's chart needs it: Go's templates with sprig's
// functions and Helm's own, values merged as Helm merges them. Objects are printed as YAML documents.
//
//	render CHART VALUES_JSON RELEASE NAMESPACE [API/VERSION/KIND...]
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"sigs.k8s.io/yaml"
)

type values = map[string]interface{}

type apis []string

func (known apis) Has(name string) bool {
	for _, one := range known {
		if one == name {
			return true
		}
	}
	return false
}

type files string

func (folder files) Get(name string) string {
	text, err := os.ReadFile(filepath.Join(string(folder), name))
	if err != nil {
		return ""
	}
	return string(text)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// As Helm does: maps are merged, null takes a key away, everything else is replaced.
func merge(into, from values) {
	for key, value := range from {
		deeper, isMap := value.(values)
		own, wasMap := into[key].(values)
		switch {
		case value == nil:
			delete(into, key)
		case isMap && wasMap:
			merge(own, deeper)
		default:
			into[key] = value
		}
	}
}

func readYaml(path string) values {
	text, err := os.ReadFile(path)
	check(err)
	found := values{}
	check(yaml.Unmarshal(text, &found))
	return found
}

func main() {
	chart, release, namespace := os.Args[1], os.Args[3], os.Args[4]
	all := template.New("chart").Option("missingkey=zero")
	functions := sprig.TxtFuncMap()
	functions["toYaml"] = func(value interface{}) string {
		text, err := yaml.Marshal(value)
		check(err)
		return strings.TrimSuffix(string(text), "\n")
	}
	functions["include"] = func(name string, data interface{}) (string, error) {
		var text strings.Builder
		err := all.ExecuteTemplate(&text, name, data)
		return text.String(), err
	}
	functions["required"] = func(why string, value interface{}) (interface{}, error) {
		if value == nil || value == "" {
			return nil, fmt.Errorf("%s", why)
		}
		return value, nil
	}
	functions["lookup"] = func(version, kind, namespace, name string) values { return values{} }
	all.Funcs(functions)

	about, given := readYaml(filepath.Join(chart, "Chart.yaml")), values{}
	merged := readYaml(filepath.Join(chart, "values.yaml"))
	check(json.Unmarshal([]byte(os.Args[2]), &given))
	merge(merged, given)
	data := values{
		"Values":       merged,
		"Chart":        values{"Name": about["name"], "Version": about["version"], "AppVersion": about["appVersion"]},
		"Release":      values{"Name": release, "Namespace": namespace, "Service": "Helm"},
		"Capabilities": values{"APIVersions": apis(os.Args[5:])},
		"Files":        files(chart),
	}
	names, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	check(err)
	sort.Strings(names)
	for _, name := range names {
		text, err := os.ReadFile(name)
		check(err)
		_, err = all.New(filepath.Base(name)).Parse(string(text))
		check(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".tpl") {
			continue
		}
		var text strings.Builder
		check(all.ExecuteTemplate(&text, filepath.Base(name), data))
		if strings.HasSuffix(name, ".txt") {
			fmt.Println("---\n# " + strings.ReplaceAll(text.String(), "\n", "\n# "))
		} else {
			fmt.Println("---\n" + text.String())
		}
	}
}
