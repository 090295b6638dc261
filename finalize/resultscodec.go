package finalize

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sheetanchor/sheetanchor/internal/gzipjson"
)

// DefaultResultsLimit is the size in bytes up to which [DecodeResults] expands a file when no limit is given.
const DefaultResultsLimit = 64 << 20

// EncodeResults returns the results in Velero's form, gzip of one JSON document. The same results give the same bytes.
// It fails only for an Extra that is not JSON.
func EncodeResults(r Results) ([]byte, error) {
	data, err := gzipjson.Encode(r)
	if err != nil {
		return nil, fmt.Errorf("results: %w", err)
	}
	return data, nil
}

// DecodeResults reads a file of results, ours or Velero's. No data, an absent file, is no results. limit is the greatest
// size in bytes once decompressed; zero or less: [DefaultResultsLimit]. Errors are [ErrMalformedResults] or [ErrTooLarge].
func DecodeResults(data []byte, limit int64) (Results, error) {
	if len(data) == 0 {
		return Results{}, nil
	}
	if limit <= 0 {
		limit = DefaultResultsLimit
	}
	text, err := gzipjson.Expand(data, limit)
	if errors.Is(err, gzipjson.ErrTooLarge) {
		return Results{}, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
	}
	if err != nil {
		return Results{}, fmt.Errorf("%w: %w", ErrMalformedResults, err)
	}
	var r Results
	if err := json.Unmarshal(text, &r); err != nil {
		return Results{}, fmt.Errorf("%w: %w", ErrMalformedResults, err)
	}
	return r, nil
}

var (
	resultsKeys   = []string{"warnings", "errors"}
	resultSetKeys = []string{"velero", "cluster", "namespaces"}
)

// UnmarshalJSON implements [json.Unmarshaler]: unknown keys go to Extra.
func (r *Results) UnmarshalJSON(object []byte) (err error) {
	type plain Results
	var p plain
	if err := json.Unmarshal(object, &p); err != nil {
		return err
	}
	p.Extra, err = gzipjson.Unknown(object, resultsKeys)
	*r = Results(p)
	return err
}

// MarshalJSON implements [json.Marshaler]: Extra follows the known keys, sorted.
func (r Results) MarshalJSON() ([]byte, error) {
	type plain Results
	object, err := json.Marshal(plain(r))
	if err != nil {
		return nil, err
	}
	return gzipjson.Join(object, resultsKeys, r.Extra)
}

// UnmarshalJSON implements [json.Unmarshaler]: unknown keys go to Extra.
func (s *ResultSet) UnmarshalJSON(object []byte) (err error) {
	type plain ResultSet
	var p plain
	if err := json.Unmarshal(object, &p); err != nil {
		return err
	}
	p.Extra, err = gzipjson.Unknown(object, resultSetKeys)
	*s = ResultSet(p)
	return err
}

// MarshalJSON implements [json.Marshaler]: Extra follows the known keys, sorted.
func (s ResultSet) MarshalJSON() ([]byte, error) {
	type plain ResultSet
	object, err := json.Marshal(plain(s))
	if err != nil {
		return nil, err
	}
	return gzipjson.Join(object, resultSetKeys, s.Extra)
}
