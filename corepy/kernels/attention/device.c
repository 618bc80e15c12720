/* Attention over heads that may share keys, with a softmax that goes along with the keys.
 *
 * `attention_tiles` takes tiles of rows through tiles of keys that lie in local memory.
 * `attention_keys` is for few rows, as in decoding, where all time goes to reading K and V:
 * work-groups share the keys of a sequence among them, and `attention_combined` puts their parts
 * together. D is 64, 128 or 256, and head_dim at most that; device.py says what the tiles are.
 */

#if defined(TARGET_OPENCL)
#define ALIGNED __attribute__((aligned(16)))
#else
#define ALIGNED __align__(16)
#endif
typedef struct ALIGNED {
    real x, y, z, w;
} real4;

/* Read VECTOR neighbours, zeros from `valid` on. */
DEVICE void read(GLOBAL const TYPE(X) *from, i64 stride, int valid, int packed, real *into)
{
    if (packed && valid >= VECTOR) {
        LOAD_VECTOR(X, from, into);
        return;
    }
    UNROLL for (int i = 0; i < VECTOR; ++i) into[i] = i < valid ? LOAD(X, from, i * stride) : 0;
}

/* Read from element d of a query, key or value on. */
#define READ_QUERY(row, inside, d, into) \
    read(QUERY(row) + (d) * q_s3, q_s3, (inside) ? size - (d) : 0, packed, into)
#define READ_KEY(x, number, inside, d, into) \
    read((inside) ? KEY(x, number) + (d) * x##_s3 : POINTER(x), x##_s3, \
         (inside) ? size - (d) : 0, packed, into)

/* Make `score` that of a key: minus infinity where the row does not see it. */
#define HIDE(score, key, row) \
    do { \
        if ((key) < (row).low || (key) >= (row).high) \
            score = -INFINITE; \
        else if (HAS(mask) \
                 && !POINTER(mask)[pair.batch * mask_s0 + (row).head * mask_s1 \
                                   + (row).query * mask_s2 + (key) * mask_s3]) \
            score = -INFINITE; \
        else if (HAS(bias)) { \
            const real more = LOAD(BIAS, POINTER(bias), \
                                   pair.batch * bias_s0 + (row).head * bias_s1 \
                                       + (row).query * bias_s2 + (key) * bias_s3); \
            score = more == -INFINITE ? more : score + more; \
        } \
    } while (0)

/* ------------------------------------------------------------------ many rows */
#ifdef TILE_ROWS

/* Work-items are ACROSS by DOWN: rows are shared down, keys and elements across. Each has R rows, C
 * keys, and E fours of elements of the result. */
#define R (TILE_ROWS / DOWN)
#define C (TILE_KEYS / ACROSS)
#define E (D / (4 * ACROSS))
/* Fours in a row of local memory, one more than there are, so that rows begin in other banks. */
#define LINE (D / 4 + 1)
#define LINE_OF_WEIGHTS (TILE_KEYS / 4 + 1)

/* Vector `number` of a tile in local memory, of D / VECTOR in a row. */
DEVICE void put(LOCAL real4 *tile, int number, const real *values)
{
    const int row = number / (D / VECTOR), d = number % (D / VECTOR) * VECTOR;
    UNROLL for (int i = 0; i < VECTOR; ++i)((LOCAL real *)tile)[row * (4 * LINE) + d + i] = values[i];
}

#define FILL(x, first) \
    for (int n = ITEM; n < TILE_KEYS * (D / VECTOR); n += ITEMS) { \
        const int key = (first) + n / (D / VECTOR), d = n % (D / VECTOR) * VECTOR; \
        real values[VECTOR]; \
        READ_KEY(x, key, key < pair.length, d, values); \
        put(tile, n, values); \
    }

DEVICE real dot(real4 a, real4 b, real sum)
{
    return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum))));
}

DEVICE real4 along(real a, real4 b, real4 sum)
{
    sum.x = fma(a, b.x, sum.x);
    sum.y = fma(a, b.y, sum.y);
    sum.z = fma(a, b.z, sum.z);
    sum.w = fma(a, b.w, sum.w);
    return sum;
}

/* See `settle`. */
DEVICE void settle4(real4 *sum, real4 *some)
{
    settle(&sum->x, &some->x);
    settle(&sum->y, &some->y);
    settle(&sum->z, &some->z);
    settle(&sum->w, &some->w);
}

DEVICE real4 times(real a, real4 b)
{
    b.x *= a;
    b.y *= a;
    b.z *= a;
    b.w *= a;
    return b;
}

KERNEL(attention_tiles)(PROBLEM)
{
    SHARED(real4, tile_of_q, TILE_ROWS * LINE);
    SHARED(real4, tile, TILE_KEYS * LINE);
    SHARED(real4, weights, TILE_ROWS * LINE_OF_WEIGHTS);
    SHARED(real, parts, TILE_ROWS * (ACROSS + 1)); /* of maxima and sums */

    const int tiles_of_rows = PARTS_OF_ROWS(TILE_ROWS);
    PAIR((int)(GROUP_ID(0) / tiles_of_rows));
    /* Under a causal mask the last rows have the most to do: they begin. */
    const int start = (tiles_of_rows - 1 - (int)(GROUP_ID(0) % tiles_of_rows)) * TILE_ROWS;
    const Row reach = reach_of(start, TILE_ROWS, &pair);
    const int across = ITEM % ACROSS, down = ITEM / ACROSS;

    for (int n = ITEM; n < TILE_ROWS * (D / VECTOR); n += ITEMS) {
        const int number = start + n / (D / VECTOR), d = n % (D / VECTOR) * VECTOR;
        const Row row = row_of(number, &pair);
        real values[VECTOR];
        READ_QUERY(row, number < pair.rows, d, values);
        UNROLL for (int i = 0; i < VECTOR; ++i) values[i] *= scale;
        put(tile_of_q, n, values);
    }

    real top[R], sum[R];
    real4 result[R][E];
    UNROLL for (int r = 0; r < R; ++r)
    {
        top[r] = -INFINITE;
        sum[r] = 0;
        UNROLL for (int e = 0; e < E; ++e)
            result[r][e].x = result[r][e].y = result[r][e].z = result[r][e].w = 0;
    }
#if LONG /* else too few keys for sums of their own, which take registers */
    real whole_sum[R];
    real4 whole[R][E];
    UNROLL for (int r = 0; r < R; ++r)
    {
        whole_sum[r] = 0;
        UNROLL for (int e = 0; e < E; ++e) whole[r][e] = result[r][e];
    }
#endif

    for (int first = reach.low; first < reach.high; first += TILE_KEYS) {
        FILL(k, first)
        BARRIER();
        real score[R][C];
        UNROLL for (int r = 0; r < R; ++r) UNROLL for (int c = 0; c < C; ++c) score[r][c] = 0;
        for (int d = 0; d < D / 4; ++d) {
            real4 a[R], b[C];
            UNROLL for (int r = 0; r < R; ++r) a[r] = tile_of_q[(down + r * DOWN) * LINE + d];
            UNROLL for (int c = 0; c < C; ++c) b[c] = tile[(across + c * ACROSS) * LINE + d];
            UNROLL for (int r = 0; r < R; ++r)
                UNROLL for (int c = 0; c < C; ++c) score[r][c] = dot(a[r], b[c], score[r][c]);
        }
        UNROLL for (int r = 0; r < R; ++r)
        {
            const Row row = row_of(start + down + r * DOWN, &pair);
            real greatest = top[r];
            UNROLL for (int c = 0; c < C; ++c)
            {
                HIDE(score[r][c], first + across + c * ACROSS, row);
                greatest = fmax(greatest, score[r][c]); /* a NaN comes into the sum */
            }
            parts[(down + r * DOWN) * (ACROSS + 1) + across] = greatest;
        }
        BARRIER();
        FILL(v, first)
        UNROLL for (int r = 0; r < R; ++r)
        {
            const int at = down + r * DOWN;
            real greatest = -INFINITE;
            for (int n = 0; n < ACROSS; ++n)
                greatest = fmax(greatest, parts[at * (ACROSS + 1) + n]);
            /* While nothing was seen, all weights are zero. */
            const real base = greatest == -INFINITE ? 0 : greatest;
            const real shrink = exp(top[r] - base);
            top[r] = greatest;
            sum[r] *= shrink;
            UNROLL for (int e = 0; e < E; ++e) result[r][e] = times(shrink, result[r][e]);
#if LONG
            whole_sum[r] *= shrink;
            UNROLL for (int e = 0; e < E; ++e) whole[r][e] = times(shrink, whole[r][e]);
#endif
            UNROLL for (int c = 0; c < C; ++c)
            {
                const real weight = exp(score[r][c] - base);
                sum[r] += weight;
                ((LOCAL real *)weights)[at * (4 * LINE_OF_WEIGHTS) + across + c * ACROSS] = weight;
            }
        }
        BARRIER();
        for (int four = 0; four < TILE_KEYS / 4; ++four) {
            real4 a[R];
            UNROLL for (int r = 0; r < R; ++r)
                a[r] = weights[(down + r * DOWN) * LINE_OF_WEIGHTS + four];
            UNROLL for (int e = 0; e < E; ++e)
            {
                LOCAL const real4 *b = tile + 4 * four * LINE + across + e * ACROSS;
                const real4 b0 = b[0], b1 = b[LINE], b2 = b[2 * LINE], b3 = b[3 * LINE];
                UNROLL for (int r = 0; r < R; ++r)
                {
                    result[r][e] = along(a[r].x, b0, result[r][e]);
                    result[r][e] = along(a[r].y, b1, result[r][e]);
                    result[r][e] = along(a[r].z, b2, result[r][e]);
                    result[r][e] = along(a[r].w, b3, result[r][e]);
                }
            }
        }
#if LONG
        if ((first - reach.low) % SUMMED == 0 || first + TILE_KEYS >= reach.high) {
            UNROLL for (int r = 0; r < R; ++r)
            {
                settle(&whole_sum[r], &sum[r]);
                UNROLL for (int e = 0; e < E; ++e) settle4(&whole[r][e], &result[r][e]);
            }
        }
#endif
        BARRIER();
    }
#if LONG
    UNROLL for (int r = 0; r < R; ++r)
    {
        sum[r] = whole_sum[r];
        UNROLL for (int e = 0; e < E; ++e) result[r][e] = whole[r][e];
    }
#endif

    UNROLL for (int r = 0; r < R; ++r) parts[(down + r * DOWN) * (ACROSS + 1) + across] = sum[r];
    BARRIER();
    UNROLL for (int r = 0; r < R; ++r)
    {
        const int at = down + r * DOWN;
        const Row row = row_of(start + at, &pair);
        real total = 0;
        for (int n = 0; n < ACROSS; ++n)
            total += parts[at * (ACROSS + 1) + n];
        const real share = total == 0 ? 0 : 1 / total;
        GLOBAL TYPE(X) *to = POINTER(out) + PLACE(row) * size;
        UNROLL for (int e = 0; e < E; ++e)
        {
            const real4 found = times(share, result[r][e]);
            const int d = 4 * (across + e * ACROSS);
            const int valid = start + at < pair.rows ? size - d : 0;
            if (valid > 0)
                STORE(X, to, d, found.x);
            if (valid > 1)
                STORE(X, to, d + 1, found.y);
            if (valid > 2)
                STORE(X, to, d + 2, found.z);
            if (valid > 3)
                STORE(X, to, d + 3, found.w);
        }
        if (across == 0 && start + at < pair.rows && HAS(lse))
            POINTER(lse)[PLACE(row)] = total == 0 ? -INFINITE : log(total) + top[r];
    }
}

#endif
/* ------------------------------------------------------------------ few rows */
#ifdef FEW

/* READERS work-items read a key together, so that ABREAST keys are read at once; after TURNS of them
 * the parts of their products are added up. */
#define READERS (D / VECTOR)
#define ABREAST (ITEMS / READERS)
#define TURNS 4
#define STEP (ABREAST * TURNS)
#define PRODUCTS (FEW * STEP * (READERS + 1))
#define WORK (PRODUCTS > ITEMS * VECTOR ? PRODUCTS : ITEMS * VECTOR)

/* FEW rows and `span` keys, a multiple of STEP and at most SPAN, for each work-group. Where there
 * is more than one for the keys, results go to `part` (splits, pairs, rows, size), and the greatest
 * scores and the sums of weights to `part_sums` (splits, pairs, rows, 2): beside a score like
 * -1e30 a logarithm of the sum would be lost. */
KERNEL(attention_keys)
(PROBLEM, OUT(WIDE, part), OUT(WIDE, part_sums), const int span, const int splits)
{
    SHARED(real, work, WORK);
    SHARED(real, weights, FEW * SPAN);
    SHARED(real, parts, ITEMS);

    const int shares = splits * PARTS_OF_ROWS(FEW), share_of_pair = (int)(GROUP_ID(0) % shares);
    const int number = (int)(GROUP_ID(0) / shares), pairs = (int)(GROUPS(0) / shares);
    PAIR(number);
    const int start = share_of_pair / splits * FEW, split = share_of_pair % splits;
    const Row reach = reach_of(start, FEW, &pair);
    const int begin = max(split * span, reach.low / STEP * STEP);
    const int end = min((split + 1) * span, reach.high);
    const int lane = ITEM % READERS, beside = ITEM / READERS, d = lane * VECTOR;

    real held[FEW][VECTOR]; /* of Q, and then of the result */
    UNROLL for (int r = 0; r < FEW; ++r)
    {
        const Row row = row_of(start + r, &pair);
        READ_QUERY(row, start + r < pair.rows && d < size, d, held[r]);
        UNROLL for (int i = 0; i < VECTOR; ++i) held[r][i] *= scale;
    }

    for (int first = begin; first < end; first += STEP) {
        UNROLL for (int turn = 0; turn < TURNS; ++turn)
        {
            const int at = turn * ABREAST + beside;
            real values[VECTOR];
            READ_KEY(k, first + at, first + at < end && d < size, d, values);
            UNROLL for (int r = 0; r < FEW; ++r)
            {
                real product = 0;
                UNROLL for (int i = 0; i < VECTOR; ++i)
                    product = fma(held[r][i], values[i], product);
                work[(r * STEP + at) * (READERS + 1) + lane] = product;
            }
        }
        BARRIER();
        for (int n = ITEM; n < FEW * STEP; n += ITEMS) {
            const Row row = row_of(start + n / STEP, &pair);
            real score = 0;
            for (int other = 0; other < READERS; ++other)
                score += work[n * (READERS + 1) + other];
            HIDE(score, first + n % STEP, row);
            weights[n / STEP * SPAN + first - begin + n % STEP] = score;
        }
        BARRIER();
    }

    /* The work-items share the rows, for maxima, weights and sums. */
    const int sharing = ITEMS / FEW, mine = ITEM / sharing;
    LOCAL real *scores = weights + mine * SPAN;
    real greatest = -INFINITE, sum = 0;
    for (int n = ITEM % sharing; n < end - begin; n += sharing)
        greatest = fmax(greatest, scores[n]);
    parts[ITEM] = greatest;
    BARRIER();
    for (int n = 0; n < sharing; ++n)
        greatest = fmax(greatest, parts[mine * sharing + n]);
    BARRIER();
    const real base = greatest == -INFINITE ? 0 : greatest; /* nothing seen: all weights are 0 */
    for (int n = ITEM % sharing; n < end - begin; n += sharing) {
        scores[n] = exp(scores[n] - base);
        sum += scores[n];
    }
    parts[ITEM] = sum;
    BARRIER();

    UNROLL for (int r = 0; r < FEW; ++r) UNROLL for (int i = 0; i < VECTOR; ++i) held[r][i] = 0;
    for (int first = begin; first < end; first += STEP) {
        UNROLL for (int turn = 0; turn < TURNS; ++turn)
        {
            const int key = first + turn * ABREAST + beside;
            real values[VECTOR];
            READ_KEY(v, key, key < end && d < size, d, values);
            UNROLL for (int r = 0; r < FEW; ++r)
            {
                const real weight = key < end ? weights[r * SPAN + key - begin] : 0;
                UNROLL for (int i = 0; i < VECTOR; ++i)
                    held[r][i] = fma(weight, values[i], held[r][i]);
            }
        }
    }

    UNROLL for (int r = 0; r < FEW; ++r)
    {
        const int inside = start + r < pair.rows;
        const Row row = row_of(start + r, &pair);
        const i64 at = ((i64)split * pairs + number) * pair.rows + start + r;
        real total = 0;
        for (int n = 0; n < sharing; ++n)
            total += parts[r * sharing + n];
        const real share = total == 0 ? 0 : 1 / total;
        UNROLL for (int i = 0; i < VECTOR; ++i) work[beside * D + d + i] = held[r][i];
        BARRIER();
        for (int e = ITEM; e < size && inside; e += ITEMS) {
            real found = 0;
            for (int n = 0; n < ABREAST; ++n)
                found += work[n * D + e];
            if (splits > 1)
                POINTER(part)[at * size + e] = found * share;
            else
                STORE(X, POINTER(out), PLACE(row) * size + e, found * share);
        }
        if (ITEM == r * sharing && inside) {
            if (splits > 1) {
                POINTER(part_sums)[2 * at] = greatest;
                POINTER(part_sums)[2 * at + 1] = total;
            } else if (HAS(lse))
                POINTER(lse)[PLACE(row)] = total == 0 ? -INFINITE : log(total) + base;
        }
        BARRIER();
    }
}

/* The results of `splits` parts together; a work-group for each row. */
KERNEL(attention_combined)
(IN(WIDE, part), IN(WIDE, part_sums), OUT(X, out), OUT(WIDE, lse), const int splits, const int size)
{
    /* As the heads that share one are neighbours, rows of all pairs are in the order of results. */
    const i64 at = GROUP_ID(0), step = GROUPS(0);
    GLOBAL const real *tops = POINTER(part_sums), *sums = tops + 1;
    real greatest = -INFINITE, sum = 0, some = 0;
    for (int n = 0; n < splits; ++n)
        greatest = fmax(greatest, tops[2 * (n * step + at)]);
    const real base = greatest == -INFINITE ? 0 : greatest;
    for (int n = 0; n < splits; ++n) {
        some = fma(exp(tops[2 * (n * step + at)] - base), sums[2 * (n * step + at)], some);
        if ((n + 1) % SUMMED == 0)
            settle(&sum, &some);
    }
    sum += some;
    const real share = sum == 0 ? 0 : 1 / sum;
    for (int d = ITEM; d < size; d += ITEMS) {
        real found = 0, part_of_it = 0;
        for (int n = 0; n < splits; ++n) {
            const i64 one = n * step + at;
            const real weight = exp(tops[2 * one] - base) * sums[2 * one];
            part_of_it = fma(weight, POINTER(part)[one * size + d], part_of_it);
            if ((n + 1) % SUMMED == 0)
                settle(&found, &part_of_it);
        }
        STORE(X, POINTER(out), at * size + d, (found + part_of_it) * share);
    }
    if (ITEM == 0 && HAS(lse))
        POINTER(lse)[at] = sum == 0 ? -INFINITE : log(sum) + base;
}

#endif
