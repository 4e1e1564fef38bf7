package main

import (
	"fmt"
	"math"
	"math/cmplx"
	"math/rand"

	"github.com/tuneinsight/lattigo/v6/circuits/ckks/bootstrapping"
	"github.com/tuneinsight/lattigo/v6/core/rlwe"
	"github.com/tuneinsight/lattigo/v6/schemes/ckks"
)

// The largest error of a slot.
const maxBootstrapError = 1.0 / 64

// bootstrap is a context with the keys of a bootstrap, and a vector of complex numbers in all slots.
type bootstrap struct {
	params    ckks.Parameters
	evaluator *bootstrapping.Evaluator
	encoder   *ckks.Encoder
	decryptor *rlwe.Decryptor
	values    []complex128
	input     *rlwe.Ciphertext
	facts     map[string]any
}

// literals are those of a default set with a dense secret. The two others have factors of a linear map that share a
// prime; one of them, N15QP880H16384H32, gives zeros here.
func literals(name string) (ckks.ParametersLiteral, bootstrapping.ParametersLiteral, error) {
	switch name {
	case "N16QP1767H32768H32":
		return bootstrapping.N16QP1767H32768H32.SchemeParams, bootstrapping.N16QP1767H32768H32.BootstrappingParams, nil
	case "N16QP1788H32768H32":
		return bootstrapping.N16QP1788H32768H32.SchemeParams, bootstrapping.N16QP1788H32768H32.BootstrappingParams, nil
	default:
		return ckks.ParametersLiteral{}, bootstrapping.ParametersLiteral{},
			fmt.Errorf("set: found %q, needed N16QP1767H32768H32 or N16QP1788H32768H32", name)
	}
}

func newBootstrap(asked command) (peer, map[string]any, error) {
	scheme, literal, err := literals(asked.Set)
	if err != nil {
		return nil, nil, err
	}
	residual, err := ckks.NewParametersFromLiteral(scheme)
	if err != nil {
		return nil, nil, err
	}
	// In the same ring and with the special primes of its name, which the default sets leave open.
	literal.LogN, literal.LogP = &scheme.LogN, scheme.LogP
	whole, err := bootstrapping.NewParametersFromLiteral(residual, literal)
	if err != nil {
		return nil, nil, err
	}
	secret := rlwe.NewKeyGenerator(residual).GenSecretKeyNew()
	keys, _, err := whole.GenEvaluationKeys(secret)
	if err != nil {
		return nil, nil, err
	}
	evaluator, err := bootstrapping.NewEvaluator(whole, keys)
	if err != nil {
		return nil, nil, err
	}
	made := &bootstrap{
		params: residual, evaluator: evaluator, encoder: ckks.NewEncoder(residual),
		decryptor: rlwe.NewDecryptor(residual, secret), values: make([]complex128, residual.MaxSlots()),
	}
	numbers := rand.New(rand.NewSource(1))
	for i := range made.values {
		made.values[i] = complex(2*numbers.Float64()-1, 2*numbers.Float64()-1)
	}
	plain := ckks.NewPlaintext(residual, 0)
	if err := made.encoder.Encode(made.values, plain); err != nil {
		return nil, nil, err
	}
	if made.input, err = rlwe.NewEncryptor(residual, secret).EncryptNew(plain); err != nil {
		return nil, nil, err
	}
	parameters := whole.BootstrappingParameters
	return made, map[string]any{
		"n": parameters.N(), "slots": residual.MaxSlots(), "log2_q": parameters.LogQ(), "log2_qp": parameters.LogQP(),
		"digits": (parameters.MaxLevel() + parameters.MaxLevelP() + 1) / (parameters.MaxLevelP() + 1), "security_level": "its default set of 128 bits",
		"switching_keys": len(keys.GetGaloisKeysList()) + 3, "key_bytes": keys.BinarySize(),
	}, nil
}

func (made *bootstrap) prepare(op string, _ int) (func() error, map[string]any, error) {
	if op != "bootstrap" {
		return nil, nil, fmt.Errorf("op: needed bootstrap")
	}
	if made.facts == nil {
		// A bootstrap may change its input.
		output, err := made.evaluator.Bootstrap(made.input.CopyNew())
		if err != nil {
			return nil, nil, err
		}
		if made.facts, err = made.errors(output); err != nil {
			return nil, nil, err
		}
	}
	call := func() error {
		_, err := made.evaluator.Bootstrap(made.input.CopyNew())
		return err
	}
	return call, made.facts, nil
}

// errors are the distances of the slots from what they should be, and the modulus that is left.
func (made *bootstrap) errors(output *rlwe.Ciphertext) (map[string]any, error) {
	found := make([]complex128, len(made.values))
	if err := made.encoder.Decode(made.decryptor.DecryptNew(output), found); err != nil {
		return nil, err
	}
	sum, squares, worst := 0.0, 0.0, 0.0
	for i := range found {
		distance := cmplx.Abs(found[i] - made.values[i])
		sum, squares, worst = sum+distance, squares+distance*distance, math.Max(worst, distance)
	}
	if !(worst <= maxBootstrapError) {
		return nil, fmt.Errorf("the result is off by %g, needed at most %g", worst, maxBootstrapError)
	}
	count, left := float64(len(found)), 0.0
	for _, prime := range made.params.Q()[1 : output.Level()+1] {
		left += math.Log2(float64(prime))
	}
	return map[string]any{
		"op": "bootstrap", "mean_error": sum / count, "rms_error": math.Sqrt(squares / count), "worst_error": worst,
		"levels_left": output.Level(), "modulus_left": left,
	}, nil
}
