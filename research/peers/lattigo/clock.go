package main

import (
	"runtime"
	"syscall"
	"time"
)

// timed is the wall-clock and CPU milliseconds of each call. Garbage of earlier calls is collected before.
func timed(call func() error, reps int) (map[string]any, error) {
	wall, cpu := make([]float64, reps), make([]float64, reps)
	for i := range wall {
		runtime.GC()
		cpuStart, wallStart := cpuTime(), time.Now()
		if err := call(); err != nil {
			return nil, err
		}
		wall[i] = milliseconds(time.Since(wallStart))
		cpu[i] = milliseconds(cpuTime() - cpuStart)
	}
	return map[string]any{"ms": wall, "cpu_ms": cpu}, nil
}

func milliseconds(time time.Duration) float64 {
	return float64(time.Nanoseconds()) / 1e6
}

func usage() syscall.Rusage {
	var found syscall.Rusage
	// It fails only for an unknown argument.
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &found)
	return found
}

// cpuTime is that of this process.
func cpuTime() time.Duration {
	found := usage()
	return time.Duration(found.Utime.Nano() + found.Stime.Nano())
}

// peakMemory is that of this process so far, in MiB.
func peakMemory() float64 {
	return float64(usage().Maxrss) / 1024
}
