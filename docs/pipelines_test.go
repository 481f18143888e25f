package docs_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/pipeline"
)

func TestPipelineProblemsAreListed(t *testing.T) {
	listed := section(t, "pipelines.md", "## Problems")
	real := problemCodes(t)
	for _, code := range real {
		if !strings.Contains(listed, "`"+code+"`") {
			t.Errorf("pipelines.md does not list %s", code)
		}
	}
	for _, code := range regexp.MustCompile("`([a-z_]+)`[,|]? ").FindAllStringSubmatch(listed, -1) {
		if name := code[1]; !slices.Contains(real, name) && name != "number_unsafe" && name != "output_schema" {
			t.Errorf("pipelines.md lists %s, which package pipeline does not have", name)
		}
	}
}

// problemCodes are those of documents, which stand together in one declaration.
func problemCodes(t *testing.T) []string {
	t.Helper()
	source := readPage(t, "../pipeline/parse.go")
	var codes []string
	for _, m := range regexp.MustCompile(`(?m)^\tcode[A-Z]\w+ += "(\w+)"`).FindAllStringSubmatch(source, -1) {
		codes = append(codes, m[1])
	}
	if len(codes) < 20 {
		t.Fatalf("only %v", codes)
	}
	return codes
}

func TestFieldsOfPipelinesAreListed(t *testing.T) {
	page := readPage(t, "pipelines.md")
	var walk func(path string, v any)
	walk = func(path string, v any) {
		object, ok := v.(map[string]any)
		if !ok {
			return
		}
		properties, _ := object["properties"].(map[string]any)
		for name := range properties {
			if !strings.Contains(page, "`"+name+"`") && !strings.Contains(page, name+":") {
				t.Errorf("pipelines.md does not mention %s of %s", name, path)
			}
		}
		defs, _ := object["$defs"].(map[string]any)
		for name, def := range defs {
			walk(name, def)
		}
	}
	var schema any
	if err := json.Unmarshal(pipeline.Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	walk("a pipeline", schema)
}

func TestThePipelineOnThePageIsValid(t *testing.T) {
	blocks, err := blocksOf(readPage(t, "pipelines.md"))
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, b := range blocks {
		if b.lang != "yaml" {
			continue
		}
		tried++
		if _, problems := pipeline.Check("pipelines.md", []byte(strings.Join(b.text, "\n")), pipeline.Resolver{}); len(problems) > 0 {
			t.Errorf("%+v", problems)
		}
	}
	if tried == 0 {
		t.Error("the page shows no pipeline")
	}
}
