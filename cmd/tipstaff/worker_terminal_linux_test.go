package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// Conversations with workers are listed beside chats. At a terminal the command of a line
// goes on with it: whoever is there is asked what the worker waits for.
func TestTheCommandOfASessionGoesOn(t *testing.T) {
	t.Parallel()
	w := newFake(t, "asks, then reports, slowly", "-- script.yaml --\nversion: 1\nanswers: [{text: Hello.}]\n-- bin/go.1 --\n-- bin/go.2 --\n")
	w.configure("workers:", "models: {first: {provider: scripted, script: script.yaml}}\nagents: {default: {model: first}}\nworkers:")
	id := w.newTask()
	w.Must(4, "task", "spawn", id)
	w.Must(0, "chat", "Good morning.")
	commands := map[string]string{}
	for line := range strings.Lines(w.Must(0, "sessions", "--json").Out) {
		var s struct{ Kind, Command string }
		w.Check(json.Unmarshal([]byte(line), &s))
		commands[s.Kind] = s.Command
	}
	if len(commands) != 2 {
		t.Fatalf("%v", commands)
	}
	w.Must(0, append(strings.Fields(commands["chat"])[1:], "And you?")...).Says(t, "turn 2")
	term := w.atTerminal(strings.Fields(commands["worker"])[1:]...)
	term.asked("your answer, or deny? ", 1)
	term.types("the first\n")
	term.asked("continue, ", 1) // what it has reported is to be reviewed
	if got := w.taskJSON(id); got.Status != "needs_review" || w.starts() != 2 || !strings.Contains(w.Read("bin/notes"), "the first") {
		t.Errorf("%+v\n%s", got, term.shown())
	}
	term.types("\x04")
	term.Must(4)
	w.nothingRuns()
}
