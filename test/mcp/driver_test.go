package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The suite starts a client for each of its scenarios, with the URL of a server as
// the last argument. That client is this test binary, told so by the suite's own
// variable; it does with the tipstaff command what the scenario is about: it
// declares the server, pins what that lists, and calls its tools.
const (
	scenarioVariable = "MCP_CONFORMANCE_SCENARIO"
	contextVariable  = "MCP_CONFORMANCE_CONTEXT"
	commandVariable  = "TIPSTAFF_MCP_COMMAND" // names the command that is tested
)

// call is one that a scenario is about.
type call struct {
	Tool string          `json:"name"`
	Args json.RawMessage `json:"arguments"` // nil: it is pinned, and not called

	unusable bool // it must not even be pinned
}

// calls of several tools with the same arguments.
func calls(args string, tools ...string) (list []call) {
	for _, tool := range tools {
		list = append(list, call{Tool: tool, Args: json.RawMessage(args)})
	}
	return list
}

func unusable(tools ...string) (list []call) {
	for _, tool := range tools {
		list = append(list, call{Tool: tool, unusable: true})
	}
	return list
}

const (
	withSchema = "json_schema_2020_12_tool"
	schemaBack = "its schema"
)

// scenarios are the calls of each. One that is not here is about connecting alone.
var scenarios = map[string][]call{
	"tools_call":                          calls(`{"a":5,"b":3}`, "add_numbers"),
	"sse-retry":                           calls(`{}`, "test_reconnection"),
	"elicitation-sep1034-client-defaults": calls(`{}`, "test_client_elicitation_defaults"),
	"http-standard-headers":               calls(`{}`, "test_headers", "my-hyphenated-tool"),
	"sep-2322-client-request-state":       calls(`{}`, "test_mrtr_no_result_type", "test_mrtr_unrelated", "test_mrtr_echo_state", "test_mrtr_no_state"),
	"json-schema-ref-no-deref":            unusable("lookup_user"),
	"json-schema-2020-12-preservation":    {{Tool: withSchema}, {Tool: "json_schema_echo", Args: json.RawMessage(schemaBack)}},
	"http-invalid-tool-headers": append(calls(`{"region":"eu"}`, "valid_tool"), unusable("invalid_empty_header", "invalid_space_in_name",
		"invalid_colon_in_name", "invalid_non_ascii_name", "invalid_control_char_name", "invalid_duplicate_same_case", "invalid_duplicate_diff_case",
		"invalid_object_header", "invalid_array_header", "invalid_null_header", "invalid_number_header")...),
}

// drive is the life of that client. Its exit code is 0 if everything was done.
func drive(scenario, url string) int {
	dir, err := os.MkdirTemp("", "tipstaff-scenario-")
	if err == nil {
		err = driver{dir, os.Getenv(commandVariable)}.run(scenario, url)
		err = errors.Join(err, os.RemoveAll(dir))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

type driver struct{ dir, command string }

// run declares a server for each tool, though all are one: a tool that cannot be
// used then leaves the others alone.
func (d driver) run(scenario, url string) error {
	list, err := callsOf(scenario)
	if err != nil {
		return err
	}
	if err := d.declare(url, list); err != nil {
		return err
	}
	if len(list) == 0 {
		_ = d.tipstaff("tools", "pin", "--yes") // the suite judges how it connects; there may be no tool to pin
		return nil
	}
	for n, c := range list {
		err = errors.Join(err, d.pinAndCall(serverName(n), c))
	}
	return err
}

func serverName(n int) string { return fmt.Sprintf("suite%d", n) }

// callsOf are those that the suite itself asks for, if it does.
func callsOf(scenario string) ([]call, error) {
	var given struct {
		Calls []call `json:"toolCalls"`
	}
	if context := os.Getenv(contextVariable); context != "" {
		if err := json.Unmarshal([]byte(context), &given); err != nil {
			return nil, fmt.Errorf("%s: %w", contextVariable, err)
		}
	}
	if len(given.Calls) > 0 {
		return given.Calls, nil
	}
	return scenarios[scenario], nil
}

// declare writes a manifest.
func (d driver) declare(url string, list []call) error {
	servers := map[string]any{}
	for n, c := range list {
		servers[serverName(n)] = map[string]any{"url": url, "tools": map[string]any{c.Tool: map[string]any{"effect": "read"}}}
	}
	if len(servers) == 0 {
		servers["suite"] = map[string]any{"url": url, "tools": map[string]any{"anything": map[string]any{}}}
	}
	manifest, err := json.Marshal(map[string]any{"servers": servers})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(d.dir, "tipstaff.yaml"), manifest, 0o600)
}

// locked is a tool as the lock holds it.
type locked struct {
	Digest     string `json:"digest"`
	Definition struct {
		InputSchema json.RawMessage `json:"inputSchema"`
	} `json:"definition"`
}

func (d driver) locked(server, tool string) (locked, error) {
	data, err := os.ReadFile(filepath.Join(d.dir, "tipstaff.lock"))
	if err != nil {
		return locked{}, err
	}
	var lock struct {
		Servers map[string]struct {
			Tools map[string]locked `json:"tools"`
		} `json:"servers"`
	}
	if err := json.Unmarshal(data, &lock); err != nil {
		return locked{}, err
	}
	found, ok := lock.Servers[server].Tools[tool]
	if !ok {
		return locked{}, fmt.Errorf("%s was not pinned", tool)
	}
	return found, nil
}

func (d driver) pinAndCall(server string, c call) error {
	err := d.tipstaff("tools", "pin", server, "--yes")
	switch {
	case c.unusable && err == nil:
		return fmt.Errorf("%s was pinned", c.Tool)
	case c.unusable:
		return nil
	case err != nil:
		return err
	}
	pinned, err := d.locked(server, c.Tool)
	if err != nil || c.Args == nil {
		return err
	}
	args := string(c.Args)
	if args == schemaBack {
		if args, err = d.schemaBack(); err != nil {
			return err
		}
	}
	return d.tipstaff("tools", "call", "mcp://"+server+"/"+c.Tool+"@"+pinned.Digest, "--args", args)
}

// schemaBack are the arguments for the scenario that wants to see what became of a
// schema, that of the tool before.
func (d driver) schemaBack() (string, error) {
	tool, err := d.locked(serverName(0), withSchema)
	if err != nil {
		return "", err
	}
	args, err := json.Marshal(map[string]any{"schema": tool.Definition.InputSchema})
	return string(args), err
}

func (d driver) tipstaff(args ...string) error {
	c := exec.Command(d.command, args...)
	c.Dir = d.dir
	out, err := c.CombinedOutput()
	fmt.Printf("tipstaff %s\n%s", strings.Join(args, " "), out)
	if err != nil {
		return fmt.Errorf("tipstaff %s: %w", strings.Join(args, " "), err)
	}
	return nil
}
