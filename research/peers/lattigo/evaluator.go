package main

import (
	"fmt"
	"math"
	"math/rand"

	"github.com/tuneinsight/lattigo/v6/core/rlwe"
	"github.com/tuneinsight/lattigo/v6/ring/ringqp"
	"github.com/tuneinsight/lattigo/v6/schemes/ckks"
)

const (
	// The rotation, and the largest error of a slot.
	steps    = 1
	maxError = 1e-3
)

// evaluator is a context with keys and two vectors of real numbers.
type evaluator struct {
	params ckks.Parameters
	*ckks.Evaluator
	encoder   *ckks.Encoder
	decryptor *rlwe.Decryptor
	a, b      []float64
	inputs    [2]*rlwe.Ciphertext
	made      map[string]prepared
}

// prepared is a call and the facts of its result.
type prepared struct {
	call  func() error
	facts map[string]any
}

func or(value, otherwise int) int {
	if value == 0 {
		return otherwise
	}
	return value
}

// sizes are the bits of all primes: as many of scaleBits as come nearest to logQP in all, with as many special primes
// as one digit has.
func sizes(asked command) (q, p []int) {
	logQP, digits := or(asked.LogQP, 1740), or(asked.Digits, 3)
	scaleBits, firstBits := or(asked.ScaleBits, 50), or(asked.FirstBits, 60)
	nearest := math.MaxInt
	for primes := 2; primes < 100; primes++ {
		special := (primes + digits - 1) / digits
		if (primes+special-1)/special != digits {
			continue
		}
		// The product of the special primes is at least that of a digit.
		digitBits := firstBits + (special-1)*scaleBits
		specialBits := (digitBits + special - 1) / special
		total := firstBits + (primes-1)*scaleBits + special*specialBits
		if distance := max(total-logQP, logQP-total); distance < nearest {
			nearest = distance
			q, p = []int{firstBits}, nil
			for len(q) < primes {
				q = append(q, scaleBits)
			}
			for len(p) < special {
				p = append(p, specialBits)
			}
		}
	}
	return q, p
}

func newEvaluator(asked command) (peer, map[string]any, error) {
	q, p := sizes(asked)
	params, err := ckks.NewParametersFromLiteral(ckks.ParametersLiteral{
		LogN: or(asked.LogN, 16), LogQ: q, LogP: p, LogDefaultScale: or(asked.ScaleBits, 50),
	})
	if err != nil {
		return nil, nil, err
	}
	generator := rlwe.NewKeyGenerator(params)
	secret, public := generator.GenKeyPairNew()
	relinearisation := generator.GenRelinearizationKeyNew(secret)
	rotation := generator.GenGaloisKeyNew(params.GaloisElement(steps), secret)
	keys := rlwe.NewMemEvaluationKeySet(relinearisation, rotation)
	peer := &evaluator{
		params: params, Evaluator: ckks.NewEvaluator(params, keys), encoder: ckks.NewEncoder(params),
		decryptor: rlwe.NewDecryptor(params, secret), made: map[string]prepared{},
	}
	numbers, encryptor := rand.New(rand.NewSource(1)), rlwe.NewEncryptor(params, public)
	for i, values := range []*[]float64{&peer.a, &peer.b} {
		*values = make([]float64, params.MaxSlots())
		for j := range *values {
			(*values)[j] = 2*numbers.Float64() - 1
		}
		plain, err := peer.encoded(*values, params.MaxLevel())
		if err != nil {
			return nil, nil, err
		}
		if peer.inputs[i], err = encryptor.EncryptNew(plain); err != nil {
			return nil, nil, err
		}
	}
	return peer, map[string]any{
		"n": params.N(), "towers": len(q), "special_towers": len(p), "digits": (len(q) + len(p) - 1) / len(p),
		"log2_q": params.LogQ(), "log2_qp": params.LogQP(), "scale_bits": or(asked.ScaleBits, 50),
		"first_bits": q[0], "secret": "uniform ternary", "rotation_key_bytes": rotation.BinarySize(),
		"relin_key_bytes": relinearisation.BinarySize(),
	}, nil
}

func (peer *evaluator) encoded(values []float64, level int) (*rlwe.Plaintext, error) {
	plain := ckks.NewPlaintext(peer.params, level)
	return plain, peer.encoder.Encode(values, plain)
}

// prepare returns an operation with `towers` primes left. Results go to vectors that were made before.
func (peer *evaluator) prepare(op string, towers int) (func() error, map[string]any, error) {
	name := fmt.Sprintf("%s %d", op, towers)
	if found, is := peer.made[name]; is {
		return found.call, found.facts, nil
	}
	if towers < 2 || towers > peer.params.MaxLevel()+1 {
		return nil, nil, fmt.Errorf("level: found %d, needed 2 to %d primes", towers, peer.params.MaxLevel()+1)
	}
	call, result, expected, err := peer.operation(op, towers-1)
	if err != nil {
		return nil, nil, err
	}
	if err := call(); err != nil {
		return nil, nil, err
	}
	facts := map[string]any{"op": op, "towers": towers}
	if expected != nil {
		found := make([]float64, peer.params.MaxSlots())
		if err := peer.encoder.Decode(peer.decryptor.DecryptNew(result), found); err != nil {
			return nil, nil, err
		}
		worst := 0.0
		for i := range found {
			worst = math.Max(worst, math.Abs(found[i]-expected(i)))
		}
		if !(worst <= maxError) {
			return nil, nil, fmt.Errorf("the result is off by %g, needed at most %g", worst, maxError)
		}
		facts["max_error"] = worst
	}
	peer.made[name] = prepared{call, facts}
	return call, facts, nil
}

// operation is a call, the vector with its result, and what that has in a slot.
func (peer *evaluator) operation(op string, level int) (func() error, *rlwe.Ciphertext, func(int) float64, error) {
	a, b := peer.inputs[0].CopyNew(), peer.inputs[1].CopyNew()
	peer.DropLevel(a, a.Level()-level)
	peer.DropLevel(b, b.Level()-level)
	out := ckks.NewCiphertext(peer.params, 1, level)
	next := func(i int) float64 { return peer.a[(i+steps)%len(peer.a)] }
	product := func(i int) float64 { return peer.a[i] * peer.b[i] }
	switch op {
	case "rotate":
		return func() error { return peer.Rotate(a, steps, out) }, out, next, nil
	case "mult_relin":
		return func() error { return peer.MulRelin(a, b, out) }, out, product, nil
	case "rescale":
		wide, err := peer.MulRelinNew(a, b)
		return func() error { return peer.Rescale(wide, out) }, out, product, err
	case "mult_plain":
		plain, err := peer.encoded(peer.b, level)
		return func() error { return peer.Mul(a, plain, out) }, out, product, err
	case "add":
		sum := func(i int) float64 { return peer.a[i] + peer.b[i] }
		return func() error { return peer.Add(a, b, out) }, out, sum, nil
	case "hoist":
		hoisted := peer.raised()
		return func() error { peer.hoist(a, hoisted); return nil }, out, nil, nil
	case "hoisted_rotation":
		hoisted, element := peer.raised(), peer.params.GaloisElement(steps)
		peer.hoist(a, hoisted)
		return func() error { return peer.AutomorphismHoisted(level, a, hoisted, element, out) }, out, next, nil
	default:
		return nil, nil, nil, fmt.Errorf("op: not an operation of an evaluator")
	}
}

// raised is room for the digits of a vector.
func (peer *evaluator) raised() []ringqp.Poly {
	digits := make([]ringqp.Poly, peer.params.BaseRNSDecompositionVectorSize(peer.params.MaxLevel(), peer.params.MaxLevelP()))
	for i := range digits {
		digits[i] = peer.params.RingQP().NewPoly()
	}
	return digits
}

func (peer *evaluator) hoist(a *rlwe.Ciphertext, digits []ringqp.Poly) {
	special := peer.params.MaxLevelP()
	peer.DecomposeNTT(a.Level(), special, special+1, a.Value[1], true, digits)
}
