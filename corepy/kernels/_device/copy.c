/* Elements from one layout to another. */

KERNEL(copy)(
    IN(X, source),
    OUT(X, out),
    const i64 total,
    const i64 n1,
    const i64 n2,
    const i64 n3,
    const i64 from0,
    const i64 from1,
    const i64 from2,
    const i64 from3,
    const i64 to0,
    const i64 to1,
    const i64 to2,
    const i64 to3)
{
    for (i64 i = GROUP_ID(0) * BLOCK_X + LOCAL_ID(0); i < total; i += GROUPS(0) * BLOCK_X) {
        const i64 i3 = i % n3, rest = i / n3;
        const i64 i2 = rest % n2, more = rest / n2;
        const i64 i1 = more % n1, i0 = more / n1;
        const i64 from = i0 * from0 + i1 * from1 + i2 * from2 + i3 * from3;
        POINTER(out)[i0 * to0 + i1 * to1 + i2 * to2 + i3 * to3] = POINTER(source)[from];
    }
}
