// Lattigo's CKKS as a timed peer, one thread. The protocol is that of ../protocol.py.
//
// `setup` takes either the numbers of an evaluator, as openfhe_peer.py (log_n, log_qp, digits, scale_bits, first_bits,
// all optional), or `set`, the name of one of Lattigo's default sets for bootstrapping. `time` takes the operations of
// an evaluator at a level, or "bootstrap".
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
)

const (
	library = "Lattigo"
	version = "6.1.1"
	// Most repetitions of a command: a driver's mistake must not occupy a core for hours.
	mostRepetitions = 10_000
)

// command is a line of standard input.
type command struct {
	Cmd string `json:"cmd"`
	// Of an evaluator.
	LogN      int `json:"log_n"`
	LogQP     int `json:"log_qp"`
	Digits    int `json:"digits"`
	ScaleBits int `json:"scale_bits"`
	FirstBits int `json:"first_bits"`
	// Of a bootstrap.
	Set string `json:"set"`
	// Of a timing.
	Op    string `json:"op"`
	Level int    `json:"level"`
	Reps  int    `json:"reps"`
}

// peer is what a setup has made.
type peer interface {
	// prepare returns the call to time and the facts of its result, which it checks the first time.
	prepare(op string, level int) (call func() error, facts map[string]any, err error)
}

func main() {
	runtime.GOMAXPROCS(1)
	lines := bufio.NewScanner(os.Stdin)
	answers := json.NewEncoder(os.Stdout)
	var made peer
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue
		}
		var asked command
		answer, err := map[string]any(nil), json.Unmarshal(lines.Bytes(), &asked)
		if err == nil {
			if asked.Cmd == "quit" {
				answers.Encode(map[string]any{"bye": true})
				return
			}
			answer, err = answerTo(&made, asked)
		}
		if err != nil {
			answer = map[string]any{"error": err.Error()}
		}
		if err := answers.Encode(answer); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func answerTo(made *peer, asked command) (map[string]any, error) {
	switch asked.Cmd {
	case "setup":
		if *made != nil {
			return nil, fmt.Errorf("setup: there is one already, and memory for one only: start another process")
		}
		setup := newEvaluator
		if asked.Set != "" {
			setup = newBootstrap
		}
		found, facts, err := setup(asked)
		if err != nil {
			return nil, fmt.Errorf("setup: %w", err)
		}
		*made = found
		return with(facts, map[string]any{"peer": library, "version": version}), nil
	case "time":
		if *made == nil {
			return nil, fmt.Errorf("time: there is nothing yet: send setup first")
		}
		if asked.Reps < 1 || asked.Reps > mostRepetitions {
			return nil, fmt.Errorf("reps: found %d, needed 1 to %d", asked.Reps, mostRepetitions)
		}
		call, facts, err := (*made).prepare(asked.Op, asked.Level)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", asked.Op, err)
		}
		times, err := timed(call, asked.Reps)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", asked.Op, err)
		}
		return with(facts, times), nil
	default:
		return nil, fmt.Errorf("cmd: found %q, needed one of setup, time, quit", asked.Cmd)
	}
}

// with is both, and what every answer has.
func with(facts, more map[string]any) map[string]any {
	all := map[string]any{"peak_memory_mb": peakMemory(), "threads": runtime.GOMAXPROCS(0)}
	for _, some := range []map[string]any{facts, more} {
		for name, value := range some {
			all[name] = value
		}
	}
	return all
}
