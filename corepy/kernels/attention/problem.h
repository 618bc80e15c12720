/* What the kernels of attention have in common: their parameters, and which keys a row sees.
 *
 * The queries of all heads that share a head of keys are rows beside each other: row
 * g * queries + i is query i of the g-th of them. X is the dtype of Q, K and V, and BIAS, LENGTHS
 * and QUERY_LENGTHS are those of what is named so.
 */

#define STRIDES(name) \
    const i64 name##_s0, const i64 name##_s1, const i64 name##_s2, const i64 name##_s3

/* What all forms take. Strides are in elements, 0 where one value serves all; `left` and `right`
 * are negative where a query sees all. With a table, K and V are in pages. `packed` says that all
 * rows of Q, K and V begin at multiples of 16 bytes, and their elements lie side by side. */
#define PROBLEM \
    IN(X, q), STRIDES(q), IN(X, k), STRIDES(k), IN(X, v), STRIDES(v), OUT(X, out), \
        OUT(WIDE, lse), IN(uint8, mask), STRIDES(mask), IN(BIAS, bias), STRIDES(bias), \
        IN(LENGTHS, lengths), IN(QUERY_LENGTHS, query_lengths), IN(int64, table), \
        const int pages, const int page, const int heads, const int kv_heads, \
        const int queries, const int keys, const int size, const int left, const int right, \
        const int top_left, const int packed, const real scale

/* A sequence and a head of keys. A query stands `ahead` places further than its number. */
typedef struct {
    int batch, kv_head, shared, rows, queries, asking, length, ahead, left, right;
} Pair;

/* How often `step` goes into the rows of a pair, the last time in part. */
#define PARTS_OF_ROWS(step) ((heads / kv_heads * queries + (step) - 1) / (step))

/* Where a row is, and which keys it sees: from `low` to below `high`. */
typedef struct {
    int head, query, low, high;
} Row;

/* Declare `pair`, the one of that number. */
#define PAIR(number) \
    Pair pair = { \
        (number) / kv_heads, (number) % kv_heads, heads / kv_heads, \
            heads / kv_heads * queries, queries, \
            HAS(query_lengths) ? (int)POINTER(query_lengths)[(number) / kv_heads] : queries, \
            HAS(lengths) ? (int)POINTER(lengths)[(number) / kv_heads] : keys, 0, left, right \
    }; \
    pair.ahead = top_left ? 0 : pair.length - pair.asking

DEVICE int first_seen(int query, const Pair *pair)
{
    return pair->left < 0 ? 0 : max(0, query + pair->ahead - pair->left);
}

DEVICE int end_of_seen(int query, const Pair *pair)
{
    return pair->right < 0 ? pair->length
                           : min(pair->length, query + pair->ahead + pair->right + 1);
}

/* A row by its number; one that there is not sees nothing. */
DEVICE Row row_of(int number, const Pair *pair)
{
    const int inside = number < pair->rows;
    Row row;
    row.head = pair->kv_head * pair->shared + (inside ? number / pair->queries : 0);
    row.query = inside ? number % pair->queries : 0;
    row.low = first_seen(row.query, pair);
    row.high = inside && row.query < pair->asking ? end_of_seen(row.query, pair) : 0;
    return row;
}

/* The keys that any of some rows sees, from `low` to below `high`; where the rows are of several
 * heads, those that any query sees. */
DEVICE Row reach_of(int first, int count, const Pair *pair)
{
    const int last = min(first + count, pair->rows) - 1, queries = pair->queries;
    const int alone = first / queries == last / queries;
    const int to = min(alone ? last % queries : queries - 1, pair->asking - 1);
    Row reach;
    reach.head = pair->kv_head * pair->shared + first / queries;
    reach.query = alone ? first % queries : 0;
    reach.low = first_seen(reach.query, pair);
    reach.high = reach.query <= to ? end_of_seen(to, pair) : 0;
    return reach;
}

/* Where a row's result is, in rows. */
#define PLACE(row) (((i64)pair.batch * heads + (row).head) * queries + (row).query)

/* Where a query is, and a key or value. */
#define QUERY(row) (POINTER(q) + pair.batch * q_s0 + (row).head * q_s1 + (row).query * q_s2)
#define KEY(x, number) \
    (POINTER(x) \
     + (HAS(table) ? POINTER(table)[pair.batch * (i64)pages + (number) / page] : pair.batch) \
           * x##_s0 \
     + pair.kv_head * x##_s1 + (HAS(table) ? (number) % page : (number)) * x##_s2)

