// The allowed values of type attributes of ops on variables that calculate, as the op table has
// them.
#ifndef TANDEM_KERNELS_STATE_NUMBER_TYPES_H_
#define TANDEM_KERNELS_STATE_NUMBER_TYPES_H_

#define TANDEM_NUMBER_TYPES                                                               \
  "{float32,float64,int32,uint8,int16,int8,complex64,int64,qint8,quint8,qint32,bfloat16," \
  "qint16,quint16,uint16,complex128,float16,uint32,uint64}"

#endif  // TANDEM_KERNELS_STATE_NUMBER_TYPES_H_
