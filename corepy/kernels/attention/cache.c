/* Keeping further keys and values: a copy to where the pages of each sequence are. */

#define STRIDES(name) \
    const i64 name##_s0, const i64 name##_s1, const i64 name##_s2, const i64 name##_s3

/* Put `added` positions of each sequence, from `start` on or from `starts` for each of them, into
 * pages (blocks, kv_heads, page, size). Without a table, sequence n has block n. */
KERNEL(keep)(
    IN(X, k),
    STRIDES(k),
    IN(X, v),
    STRIDES(v),
    OUT(X, keys),
    OUT(X, values),
    IN(int64, starts),
    IN(int64, table),
    const i64 total,
    const i64 start,
    const i64 pages,
    const i64 page,
    const i64 kv_heads,
    const i64 added,
    const i64 size)
{
    for (i64 i = GROUP_ID(0) * ITEMS + ITEM; i < total; i += GROUPS(0) * ITEMS) {
        const i64 d = i % size, row = i / size;
        const i64 n = row % added, head = row / added % kv_heads, sequence = row / added / kv_heads;
        const i64 place = n + (HAS(starts) ? POINTER(starts)[sequence] : start);
        const i64 block = HAS(table) ? POINTER(table)[sequence * pages + place / page] : sequence;
        const i64 at = ((block * kv_heads + head) * page + place % page) * size + d;
        POINTER(keys)[at] = POINTER(k)[sequence * k_s0 + head * k_s1 + n * k_s2 + d * k_s3];
        POINTER(values)[at] = POINTER(v)[sequence * v_s0 + head * v_s1 + n * v_s2 + d * v_s3];
    }
}
